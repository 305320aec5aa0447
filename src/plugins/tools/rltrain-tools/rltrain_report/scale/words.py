"""Why more ranks are not as much faster, in words."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

from rltrain_report.scale.sizes import Size
from rltrain_report.timing import PHASES, RankTime, slowest

_GOOD = 0.95
"""An efficiency that needs no explanation."""
_IMPOSSIBLE = 1.15
"""An efficiency that more ranks do not explain."""
_LITTLE = 0.1
"""A share of the lost time that is not worth a word."""


def reasons(sizes: Sequence[Size], mode: str) -> list[str]:
    """Return sentences for each number of ranks but the smallest."""
    base, lines = sizes[0], []
    for size in sizes[1:]:
        if not size.times or not base.times:
            lines.append(f"{_ranks(size)}: the times of the phases were not recorded.")
        elif size.efficiency > _IMPOSSIBLE:
            lines.append(
                f"{_ranks(size)}: {_faster(size, base)}, more than {size.ranks / base.ranks:g} "
                "times: something else, such as other work on the machine, has slowed the runs on "
                "fewer ranks. Run it again on a quiet machine, or with more seeds."
            )
        elif size.efficiency >= _GOOD:
            lines.append(f"{_ranks(size)}: as fast as could be, {_faster(size, base)}.")
        else:
            lines.append(_reason(size, base, mode))
    return [*lines, *_notes(sizes)]


def _reason(size: Size, base: Size, mode: str) -> str:
    """Return where the lost time goes."""
    share = base.ranks / size.ranks if mode == "strong" else 1.0
    ideal = {phase: base.mean(_of(phase)) * share for phase in PHASES}
    now = {phase: size.mean(_of(phase)) for phase in PHASES}
    lost = {phase: now[phase] - ideal[phase] for phase in PHASES}
    whole = sum(value for value in lost.values() if value > 0)
    text = (
        f"{_ranks(size)}: {_faster(size, base)}, an efficiency of {size.efficiency:.0%}. An "
        f"iteration takes {sum(now.values()):.3g} s; {sum(ideal.values()):.3g} s would be perfect."
    )
    if whole <= 0:
        return text
    ordered = sorted(lost, key=lambda phase: -lost[phase])
    shares = [
        f"{lost[phase] / whole:.0%} {_CAUSES[phase].format(now[phase], ideal[phase])}"
        for phase in ordered
        if lost[phase] / whole >= _LITTLE
    ]
    of = f"Of the lost time, {', '.join(shares)}."
    return f"{text} {of} {slowest(size.times)}"


_CAUSES = {
    "rollout": "is in the environments (rollout {0:.3g} s instead of {1:.3g} s)",
    "update": "is in the update ({0:.3g} s instead of {1:.3g} s)",
    "waiting": "is waiting for the slowest rank ({0:.3g} s)",
    "communication": "is communication ({0:.3g} s)",
}


def _notes(sizes: Sequence[Size]) -> list[str]:
    """Return what explains it for all numbers of ranks."""
    notes = []
    here, cores = socket.gethostname(), len(os.sched_getaffinity(0))
    crowded = [
        size
        for size in sizes
        if size.num_nodes == 1
        and size.ranks > cores
        and all(run.manifest.get("host") == here for run in size.runs)
    ]
    if crowded:
        counts = " and ".join(str(size.ranks) for size in crowded)
        notes.append(
            f"This machine has {cores} cores for {counts} ranks: they take turns, so all phases "
            "take longer, and a rank that is without a core in a collective counts as "
            "communication. More ranks than cores cannot be faster."
        )
    config = sizes[0].runs[0].config
    on_cpu = config.get("device_kind") == "cpu" and sizes[0].ranks == 1
    if on_cpu and sizes[-1].efficiency > _IMPOSSIBLE:
        notes.append(
            "On CPUs, the threads of a single rank wait for each other where other work keeps the "
            "cores busy: OMP_NUM_THREADS=1 gives each rank one thread."
        )
    if on_cpu and sizes[-1].efficiency < _GOOD:
        notes.append(
            "On CPUs, a single rank may use several cores by its threads; then two ranks cannot be "
            "twice as fast."
        )
    if config.get("backend") not in ("gloo", None):
        notes.append(
            f"With {config['backend']}, collectives return before they are done: a part of waiting "
            "and communication counts as update."
        )
    return notes


def _of(phase: str) -> Callable[[RankTime], float]:
    return lambda each: float(getattr(each, phase))


def _ranks(size: Size) -> str:
    return f"{size.ranks} ranks"


def _faster(size: Size, base: Size) -> str:
    than = "one" if base.ranks == 1 else str(base.ranks)
    return f"{size.mean_fps / base.mean_fps:.2f} times the frames a second of {than}"
