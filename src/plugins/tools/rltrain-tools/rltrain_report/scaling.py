"""What runs on several numbers of ranks achieve, compared with the smallest number, and why."""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.builtin.console import duration
from rltrain.errors import UsageError
from rltrain.runs import Run
from rltrain.terminal import one_line
from rltrain_report.facts import check_blocks, environment_section, warning_blocks
from rltrain_report.groups import Group
from rltrain_report.numbers import number, spread
from rltrain_report.page import Page, Pictures, Section, Table, Text
from rltrain_report.pictures import Picture, color, curve_picture, time_picture
from rltrain_report.timing import (
    PHASES,
    RankTime,
    frames_a_second,
    mean_times,
    rank_times,
    slowest,
)

_GOOD, _IMPOSSIBLE = 0.95, 1.15
"""Efficiencies that need no explanation, and that more ranks do not explain."""


@dataclass(frozen=True)
class Size:
    """All runs on one number of ranks."""

    ranks: int
    nodes: int
    environments_a_rank: int
    runs: tuple[Run, ...]
    fps: tuple[float, ...]
    """Frames a second of all ranks together, run by run: medians over iterations."""
    efficiency: float
    """Frames a second a rank, as a share of those of the smallest number of ranks."""
    times: tuple[RankTime, ...]
    """Each rank's seconds of an iteration, means over runs; empty if they were not recorded."""
    target_return: float | None
    seconds_to_target_return: tuple[float, ...]
    """Of the runs that reached it."""

    @property
    def label(self) -> str:
        """The number of ranks in words."""
        return f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"

    def mean(self, phase: str) -> float:
        """Return the mean over ranks of an attribute of `RankTime`."""
        return statistics.fmean(getattr(each, phase) for each in self.times)

    def as_json(self) -> dict[str, Any]:
        """Return what `scale.json` holds of it."""
        shown = {name: value for name, value in vars(self).items() if name not in ("runs", "times")}
        seeds = [run.metrics.started.seed for run in self.runs]
        return {**shown, "seeds": seeds, "seconds_by_rank": [vars(each) for each in self.times]}


def sizes_of(runs: Sequence[Run]) -> list[Size]:
    """Return what runs of one task and library achieve, by their number of ranks."""
    for name in ("task", "library", "algorithm"):
        values = dict.fromkeys(str(getattr(run.metrics.started, name)) for run in runs)
        if len(values) > 1:
            raise UsageError(
                f"The runs differ in the {name}, {' and '.join(values)}: numbers of ranks can be "
                "compared only where all else is equal. Name the runs of one."
            )
    by_ranks: dict[int, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.metrics.started.world_size):
        by_ranks.setdefault(run.metrics.started.world_size, []).append(run)
    if len(by_ranks) == 1:
        raise UsageError(
            f"All runs had {next(iter(by_ranks))} ranks: there is nothing to compare. Name runs on "
            "several numbers of ranks."
        )
    targets = {run.target_return for run in runs}
    target = targets.pop() if len(targets) == 1 else None
    sizes: list[Size] = []
    for ranks, same in by_ranks.items():
        fps = tuple(frames_a_second(run.scalars) for run in same)
        a_rank = statistics.fmean(fps) / ranks
        best = statistics.fmean(sizes[0].fps) / sizes[0].ranks if sizes else a_rank
        solved = [run for run in same if run.metrics.ended and run.metrics.ended.solved]
        sizes.append(
            Size(
                ranks=ranks,
                nodes=same[0].metrics.started.num_nodes,
                environments_a_rank=same[0].metrics.started.num_envs,
                runs=tuple(same),
                fps=fps,
                efficiency=a_rank / best,
                times=tuple(mean_times([rank_times(run.scalars) for run in same])),
                seconds_to_target_return=tuple(run.seconds for run in solved) if target else (),
                target_return=target,
            )
        )
    return sizes


def result_table(sizes: Sequence[Size]) -> Table:
    """Return a row for each number of ranks."""
    target = sizes[0].target_return
    head = ["ranks", "nodes", "environments", "seeds", "fps", "efficiency", "waiting"]
    head += ["communication"] if target is None else ["communication", f"time to {target:g}"]
    rows = []
    for size in sizes:
        whole = max(size.mean("whole"), 1e-12) if size.times else 0.0
        shares = [
            f"{size.mean(phase) / whole:.0%}" if whole else "-"
            for phase in ("waiting", "communication")
        ]
        row = [str(size.ranks), str(size.nodes)]
        row += [f"{size.environments_a_rank:,} a rank", str(len(size.runs))]
        row += [spread(size.fps), f"{size.efficiency:.0%}", *shares]
        if target is not None:
            missed = len(size.runs) - len(size.seconds_to_target_return)
            text = spread(size.seconds_to_target_return, duration)
            row.append(f"{text}, {missed} not" if missed else text)
        rows.append(row)
    return Table(head, rows, numbers=range(len(head)))


def as_markdown(table: Table) -> str:
    """Return a table as lines of text, which a page in Markdown takes, too."""
    rows = [[one_line(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"| {' | '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    ]
    rule = "|".join("-" * (width + 1) + ":" for width in widths)
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def reasons(sizes: Sequence[Size], mode: str) -> list[str]:
    """Return sentences for each number of ranks but the smallest."""
    base = sizes[0]
    lines = [_reason(size, base, mode) for size in sizes[1:]]
    here, cores = socket.gethostname(), len(os.sched_getaffinity(0))
    crowded = [
        str(size.ranks)
        for size in sizes
        if size.nodes == 1
        and size.ranks > cores
        and all(run.manifest.get("host") == here for run in size.runs)
    ]
    if crowded:
        lines.append(
            f"This machine has {cores} cores for {' and '.join(crowded)} ranks: they take turns, "
            "so all phases take longer, and a rank that is without a core in a collective counts "
            "as communication. More ranks than cores cannot be faster."
        )
    return lines


def _reason(size: Size, base: Size, mode: str) -> str:
    """Return how fast a number of ranks is, and where the lost time goes."""
    than = "one" if base.ranks == 1 else str(base.ranks)
    faster = statistics.fmean(size.fps) / statistics.fmean(base.fps)
    text = f"{size.label}: {faster:.2f} times the frames a second of {than}, an efficiency of "
    text += f"{size.efficiency:.0%}."
    if size.efficiency > _IMPOSSIBLE:
        return (
            f"{text} That is more than {size.ranks / base.ranks:g} times: something else, such as "
            "other work on the machine, has slowed the runs on fewer ranks. Run it again on a "
            "quiet machine, or with more seeds."
        )
    if size.efficiency >= _GOOD or not size.times or not base.times:
        return text
    share = base.ranks / size.ranks if mode == "strong" else 1.0
    ideal = {phase: base.mean(phase) * share for phase in PHASES}
    now = {phase: size.mean(phase) for phase in PHASES}
    lost = {phase: max(now[phase] - ideal[phase], 0.0) for phase in PHASES}
    whole = max(sum(lost.values()), 1e-12)
    shares = [
        f"{lost[phase] / whole:.0%} is {phase} ({now[phase]:.3g} s instead of {ideal[phase]:.3g} s)"
        for phase in sorted(lost, key=lambda phase: -lost[phase])
        if lost[phase] / whole >= 0.1
    ]
    return (
        f"{text} An iteration takes {sum(now.values()):.3g} s; {sum(ideal.values()):.3g} s would "
        f"be perfect. Of the lost time, {', '.join(shares)}. {slowest(size.times)}"
    )


def scale_page(sizes: Sequence[Size], mode: str) -> Page:
    """Return the page of an experiment."""
    runs = [run for size in sizes for run in size.runs]
    started = runs[0].metrics.started
    explained = {
        "weak": "Each rank has the same number of environments, so more ranks do more.",
        "strong": "All ranks together have the same number of environments, which they share.",
    }[mode]
    note = (
        "Frames a second (fps) are those of all ranks together: the median over iterations without "
        "the first ones, the mean over seeds with the lowest and the highest. Efficiency is fps a "
        f"rank, as a share of that of {sizes[0].label}. Waiting and communication are shares of an "
        "iteration."
    )
    groups = [Group(size.label, index, size.runs) for index, size in enumerate(sizes)]
    pictures = [
        _speed_picture(sizes),
        *(
            curve_picture(f"return-{x}", "Return", groups, lambda each: each.episode_return, x)
            for x in ("frames", "seconds")
        ),
        *(time_picture(f"time-{size.ranks}-ranks", size.label, size.times) for size in sizes),
    ]
    sections = [
        Section("Result", [result_table(sizes), Text([note])], "result"),
        Section("Why it is not faster", [Text(reasons(sizes, mode))], "why"),
        Section("Speed and learning", [Pictures([x for x in pictures if x is not None])], "speed"),
        Section("Divergence checks", check_blocks(runs), "checks"),
        environment_section(runs),
        Section("Warnings and errors", warning_blocks(runs), "warnings"),
    ]
    return Page(
        title=f"{started.task} on {', '.join(str(size.ranks) for size in sizes)} ranks",
        lead=f"{started.library} {started.algorithm}, {mode} scaling. {explained}",
        sections=[section for section in sections if section.blocks],
        foot=f"Written by rltrain scale on {time.strftime('%Y-%m-%d %H:%M')}.",
    )


def _speed_picture(sizes: Sequence[Size]) -> Picture:
    """Plot the frames a second over the number of ranks, with what would be perfect."""
    means = [statistics.fmean(size.fps) for size in sizes]
    perfect = [means[0] / sizes[0].ranks * size.ranks for size in sizes]
    measured = [f"{size.label} {number(mean)}" for size, mean in zip(sizes, means, strict=True)]

    def plot(axes: Any) -> None:
        places = range(len(sizes))
        axes.plot(places, perfect, color="gray", linestyle="--", linewidth=1.2, label="perfect")
        axes.plot(places, means, color=color(0), marker="o", markersize=4, label="measured")
        for place, size in zip(places, sizes, strict=True):
            axes.plot([place] * 2, [min(size.fps), max(size.fps)], color=color(0), alpha=0.4)
        axes.set_xticks(places, [str(size.ranks) for size in sizes])
        axes.set_xlabel("ranks", loc="right")
        axes.set_ylim(bottom=0)

    alt = f"Frames a second by number of ranks: {', '.join(measured)}."
    return Picture("fps", "Frames a second", alt, plot)
