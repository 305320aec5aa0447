"""Groups of runs that differ in nothing but the seed, their names, and what they differ in."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.config import RunConfig
from rltrain.options import Scope, flatten, scoped
from rltrain.plugins import discover
from rltrain.runs import Run
from rltrain.specs import LibrarySpec

DONE = ("finished", "solved")
"""Outcomes of runs that finished."""

_NAMED = ("library", "algorithm", "task", "ranks")
"""What a group's name consists of, if that differs."""


@dataclass(frozen=True)
class Group:
    """Runs that learn the same, with different seeds or with the same."""

    label: str
    index: int
    """Number of its color."""
    runs: tuple[Run, ...]

    @property
    def counted(self) -> tuple[Run, ...]:
        """Those that make up its figures: of each seed the last run that finished.

        If none has finished, all count, one of each seed.
        """
        ended = [run for run in self.runs if run.outcome in DONE]
        return tuple({run.metrics.started.seed: run for run in ended or self.runs}.values())

    @property
    def others(self) -> tuple[Run, ...]:
        """Those that do not count."""
        return tuple(run for run in self.runs if run not in self.counted)


def options_of(run: Run) -> dict[str, Any]:
    """Return the options that say what a run learns, and on how many ranks, by dotted key."""
    started, config = run.metrics.started, run.config
    given: Any = config.get("plugins")
    given = given if isinstance(given, dict) else {}
    learned = {name: config[name] for name in scoped(RunConfig, Scope.RUN) if name in config}
    # Options of other plugins, such as writers, say nothing of what is learned.
    of_plugins = {name: given.get(name, {}) for name in map(str, learned.values())}
    copies = {f"agent.{key}" for key in _run_keys(started.library).values()}
    flat = {
        key: value
        for key, value in flatten({**of_plugins, **learned})
        if key not in copies and key.rpartition(".")[2] != "seed" and value != {}
    }
    is_new = config.get("checkpoint") is not None and not started.frames
    return {
        **flat,
        "checkpoint": "given" if is_new else "none",
        "library": started.library,
        "algorithm": started.algorithm,
        "task": started.task,
        "ranks": started.world_size,
        "num_envs": started.num_envs,
    }


@functools.cache
def _run_keys(library: str) -> Mapping[str, str]:
    """Return where a library's options repeat those of the run."""
    specs = {spec.name: spec for spec in discover().all(LibrarySpec)}
    return specs[library].schema.run_keys if library in specs else {}


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
        (name, ["" if name not in each else str(each[name]) for each in options])
        for name in names
        if any(_differ(name, one, other) for one in options for other in options)
    ]


def _differ(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    comparable = not name.startswith("agent.") or one["library"] == other["library"]
    return comparable and repr(one.get(name)) != repr(other.get(name))


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
