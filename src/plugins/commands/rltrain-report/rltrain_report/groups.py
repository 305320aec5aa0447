"""Groups of runs that differ in nothing but the seed, their names, and what they differ in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.options import flatten
from rltrain.runs import Run

__all__ = ["Group", "differences", "grouped"]

_ELSEWHERE = frozenset(
    {
        *("seed", "run_name", "log_root", "rank_log_dir", "run_dir", "show_ranks", "agent_config"),
        *("node_rank", "master_addr", "master_port", "coordinator_address", "rdzv_endpoint"),
        *("rdzv_id", "local_addr", "writers", "observers", "renders", "headless", "no_plugins"),
        *("join_timeout", "hang_timeout", "trust_checkpoint", "keep", "checkpoint_interval"),
        *("auto_resume", "resume", "gpu_ids", "device", "cluster", "profile", "distributed"),
        *("launcher", "nproc_per_node", "min_nodes", "rdzv_backend", "max_restarts"),
        *("virtual_local_rank", "check_interval", "enable_cameras", "total_envs"),
    }
)
"""Options that say where a run is, how it is started and what it writes, not what it learns. The
numbers of ranks and of a rank's environments count, however they were given."""

_NAMED = ("library", "algorithm", "task", "ranks")
"""What a group's name consists of, if that differs."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed."""

    label: str
    """What makes it different from the other groups."""
    index: int
    """Number of its color."""
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> str:
        """How many seeds there are, in words."""
        count = len({run.metrics.started.seed for run in self.runs})
        text = f"{count} seeds" if count > 1 else "1 seed"
        return text if count == len(self.runs) else f"{len(self.runs)} runs of {text}"


def options_of(run: Run) -> dict[str, Any]:
    """Return the options that say what a run learns, and on how many ranks, by dotted key."""
    started = run.metrics.started
    flat = {
        key: value
        for key, value in flatten(dict(run.config))
        if key.partition(".")[0] not in _ELSEWHERE and key.rpartition(".")[2] != "seed"
    }
    flat["checkpoint"] = "none" if flat.get("checkpoint") is None else "given"
    return {
        **flat,
        "library": started.library,
        "algorithm": started.algorithm,
        "task": started.task,
        "ranks": started.world_size,
        "num_envs": started.num_envs,
    }


def grouped(runs: Sequence[Run]) -> list[Group]:
    """Return the groups, in the order in which their first runs were named.

    A run without a manifest is known by what `metrics.jsonl` says alone.
    """
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(repr(sorted(options_of(run).items(), key=repr)), []).append(run)
    labels = _labels([options_of(group[0]) for group in found.values()])
    return [
        Group(label, index, tuple(group))
        for index, (label, group) in enumerate(zip(labels, found.values(), strict=True))
    ]


def differences(groups: Sequence[Group]) -> list[tuple[str, list[str]]]:
    """Return each option that differs, with its value in each group.

    Libraries have options of their own: these are compared only between groups of one library, and
    are empty for the others.
    """
    options = [options_of(group.runs[0]) for group in groups]
    names = dict.fromkeys(name for each in options for name in each)
    return [
        (name, [_shown(each, name) for each in options])
        for name in names
        if any(_differ(name, one, other) for one in options for other in options)
    ]


def _differ(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    of_library = name.startswith("agent.")
    comparable = not of_library or one["library"] == other["library"]
    return comparable and repr(one.get(name)) != repr(other.get(name))


def _shown(options: Mapping[str, Any], name: str) -> str:
    if name not in options:
        return ""
    value = options[name]
    return "none" if value is None else str(value)


def _labels(options: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each group: the library, and what else differs from any other group."""
    labels = []
    for own in options:
        differing = [name for name in own if any(_differ(name, own, other) for other in options)]
        parts = [str(own["library"])]
        parts += [str(own[name]) for name in ("algorithm", "task") if name in differing]
        if "ranks" in differing:
            parts.append(f"{own['ranks']} rank{'s' if own['ranks'] != 1 else ''}")
        same = [other for other in options if all(own[name] == other[name] for name in _NAMED)]
        others = [name for name in own if any(_differ(name, own, other) for other in same)]
        others.sort(key=lambda name: (not name.startswith(("agent.", "env.")), len(name)))
        parts += [f"{name.rpartition('.')[2]}={own[name]}" for name in others[:2]]
        labels.append(", ".join(parts))
    return [
        label if labels.count(label) == 1 else f"{label} ({labels[: index + 1].count(label)})"
        for index, label in enumerate(labels)
    ]
