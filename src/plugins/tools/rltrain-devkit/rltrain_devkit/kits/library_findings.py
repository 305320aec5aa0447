"""The faults that `LibraryConformance` finds in a training, as sentences that say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rltrain.testing import leaves
from rltrain_devkit.kits.library_probe import Arrays, Probe, differing

_WRITTEN_BY_THE_CORE = (
    *("manifest.json", "config.yaml", "agent.yaml", "checkpoints.json", "metrics.jsonl"),
)


def missing_averages(ranks: Sequence[Probe]) -> list[str]:
    """Return in which iterations an optimizer did not average its gradients."""
    if not ranks[0].syncs:
        return ["No gradient sync was made: call session.gradient_sync once for each optimizer."]
    calls = [[sync.calls for sync in probe.syncs] for probe in ranks]
    if any(other != calls[0] for other in calls):
        return [f"Numbers of gradient sync calls differ between ranks; by rank: {calls}."]
    found, before = [], [0] * len(calls[0])
    for iteration, now in ranks[0].recorded:
        found += [
            f"Gradient sync number {index + 1} was not called in iteration {iteration}: call it "
            "between every backward pass and the optimizer's step."
            for index in range(len(now))
            if now[index] == before[index]
        ]
        before = now
    return found


def left_out(ranks: Sequence[Probe]) -> list[str]:
    """Return the parameters that diverged because they are in no gradient sync."""
    if not ranks[0].syncs:
        return []
    return _one(
        [name for name in _diverged(ranks) if not _synchronized(ranks[0], name)],
        "in no gradient sync, and different between ranks after training: pass all parameters of "
        "the optimizer to session.gradient_sync.",
    )


def different_parameters(ranks: Sequence[Probe]) -> list[str]:
    """Return the parameters that diverged although their gradients were averaged."""
    return _one(
        [name for name in _diverged(ranks) if _synchronized(ranks[0], name)],
        "different between ranks after training, although gradients were averaged: each rank must "
        "take the same steps, with the same learning rate and the same optimizer state.",
    )


def different_buffers(ranks: Sequence[Probe]) -> list[str]:
    """Return the statistics that differ between ranks."""
    return _one(
        _differing([probe.buffers for probe in ranks]),
        "different between ranks after training: pool a normalizer's moments with "
        "session.group.all_reduce before it uses them.",
    )


def unwrapped(ranks: Sequence[Probe]) -> list[str]:
    """Return the trained parameters that belong to no wrapped model."""
    wrapped = {id(x) for x in leaves(ranks[0].models).values()}
    return [
        f"{sum(id(x) not in wrapped for x in sync.parameters)} of the {len(sync.parameters)} "
        f"parameters of gradient sync number {number} belong to no wrapped model: call "
        "session.wrap_model for every model that is trained."
        for number, sync in enumerate(ranks[0].syncs, 1)
        if not all(id(x) in wrapped for x in sync.parameters)
    ]


def unordered_seeds(ranks: Sequence[Probe]) -> list[str]:
    """Return the ranks that did not seed the stream `learner` once, after all constructors."""
    wrong = [probe for probe in ranks if not _in_order(probe.events)]
    if not wrong:
        return []
    return [
        'session.seed("learner") must be called once, after the last session.wrap_model and before '
        f"the first step; on rank(s) {', '.join(str(probe.rank) for probe in wrong)} it was not. "
        f"Rank {wrong[0].rank}: {', '.join(wrong[0].events)}."
    ]


def shared_seeds(ranks: Sequence[Probe]) -> list[str]:
    """Return the generators that have the same state on two ranks when training begins."""
    found = []
    for name in ranks[0].first_generators:
        states = [probe.first_generators[name] for probe in ranks]
        if len(set(states)) < len(states):
            groups = [[r for r, other in enumerate(states) if other == s] for s in set(states)]
            shared = next(group for group in sorted(groups) if len(group) > 1)
            found.append(
                f"The global generator of {name} is in the same state on ranks "
                f"{', '.join(map(str, shared))} when training begins: do not reseed it after "
                'session.seed("learner"), which uses the global rank.'
            )
    return found


def alike(ranks: Sequence[Probe]) -> list[str]:
    """Return which ranks begin with the same observations."""
    return [
        f"The first observations of ranks {other.rank} and {probe.rank} are the same: reset "
        "session.env without a seed; it uses the rank's own."
        for rank, probe in enumerate(ranks)
        for other in ranks[:rank]
        if not differing(probe.first_observations, other.first_observations)
    ]


def changed(ranks: Sequence[Probe], again: Sequence[Probe]) -> list[str]:
    """Return what has become different when the run was repeated."""
    return [
        f"{names[0]} ended different on rank {probe.rank} when the run was repeated with its seed: "
        "draw random numbers only from generators that session.seed seeds."
        for probe, repeated in zip(ranks, again, strict=True)
        if (names := differing(probe.parameters, repeated.parameters))
    ]


APART = (
    *(missing_averages, left_out, different_parameters, different_buffers),
    *(alike, unordered_seeds, shared_seeds),
)
"""What finds ranks that do not learn together."""


def foreign_files(probe: Probe) -> list[str]:
    """Return the files in the run folder that neither the core nor a checkpoint's save wrote."""
    folder = probe.session.run_folder.path
    own = {folder / name for name in _WRITTEN_BY_THE_CORE} | {Path(p) for p, _ in probe.saved}
    return [
        f"{path.relative_to(folder)} in the run folder was not written through the session: save "
        "with session.save_checkpoint, and log with session.record."
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path not in own and path.parent != folder / "checkpoints/ranks"
    ]


def _one(names: Sequence[str], finding: str) -> list[str]:
    """Return one sentence about all the names, if there are any."""
    return [f"{', '.join(names)}: {finding}"] if names else []


def _in_order(events: Sequence[str]) -> bool:
    wraps = [place for place, event in enumerate(events) if event.startswith("wrap")]
    seeds = [place for place, event in enumerate(events) if event == "seed learner"]
    return len(seeds) == 1 and max(wraps, default=-1) < seeds[0] < events.index("step")


def _synchronized(probe: Probe, name: str) -> bool:
    parameter = leaves(probe.models)[name]
    return any(parameter is x for sync in probe.syncs for x in sync.parameters)


def _diverged(ranks: Sequence[Probe]) -> list[str]:
    return _differing([probe.parameters for probe in ranks])


def _differing(ranks: Sequence[Arrays]) -> list[str]:
    names = [name for other in ranks[1:] for name in differing(ranks[0], other)]
    return list(dict.fromkeys(names))
