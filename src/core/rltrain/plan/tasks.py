"""Finds the suite that has a task, and asks as few suites as it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.plugins.registry import Registry
from rltrain.sources import find_modules_here, registered_names
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo

__all__ = ["find_task", "having"]


def find_task(
    task: str, env: Mapping[str, Any], suite: str | None, registry: Registry
) -> tuple[SuiteSpec, TaskInfo]:
    """Return the suite that has a task, and what it tells of the task.

    Args:
        task: the task's name, or "module:Name".
        env: the run's `env.` options, nested.
        suite: the suite that the user chose.
        registry: the installed plugins.

    Raises:
        UsageError: no suite has it, or several have.
    """
    if suite is not None:
        suites = [registry.get(SuiteSpec, suite)]
    else:
        suites = registry.all(SuiteSpec)
        if not suites:
            registry.get(SuiteSpec, "gymnasium")  # Says why there is none.
    found = having(task, env, suites, named=suite is not None)
    if not found:
        known = _known(task, suites)
        family = task.partition("-")[0].lower()
        missing = [each for each in registry.unusable(SuiteSpec) if each.status != "blocked"]
        if any(record.name.startswith(family) for record in missing):
            known = []  # Isaac-Cartpole without Isaac Lab is no misspelled CartPole.
        raise UsageError(
            f"Unknown task {task!r}.{_in_sources(task) or suggest(task, known)} Suites searched: "
            f"{', '.join(spec.name for spec in suites)}. For one of yours give --task MODULE:NAME."
            f"{registry.not_ready(SuiteSpec)}"
        )
    if len(found) > 1:
        names = ", ".join(spec.name for spec, _ in found)
        raise UsageError(f"Several suites have a task {task!r}: say which by --suite: {names}.")
    return found[0]


def _in_sources(task: str) -> str:
    """Return what to do if a module's sources have a task, but to import it is not enough."""
    module, _, name = task.rpartition(":")
    if not module or name not in registered_names(module, "register", "id"):
        return ""
    return (
        f" The sources of {module} have it, but to import {module} does not register it, or not "
        "with Gymnasium but with the old Gym. Register it in a module of your own."
    )


def _known(task: str, suites: Sequence[SuiteSpec]) -> list[str]:
    """Return the names that may be meant: those in the module that the user names, or all."""
    module, named, _ = task.partition(":")
    own = registered_names(module, "register", "id") if named else []
    if own:
        return [f"{module}:{each}" for each in own]
    known = [each for spec in suites for each in spec.tasks()]
    if not named:
        known += [each for spec in suites if spec.unimported for each in spec.unimported()]
    return known


def having(
    task: str, env: Mapping[str, Any], suites: Sequence[SuiteSpec], named: bool = False
) -> list[tuple[SuiteSpec, TaskInfo]]:
    """Return the suites that have a task, with what they tell of it.

    First those are asked in whose sources it is found, then those that need not look. The others,
    which would start a simulator to say no, are asked only if the user has named them or a module.

    Args:
        task: the task's name, or "module:Name".
        env: the run's `env.` options, nested.
        suites: the suites to ask.
        named: whether the user has named the suite.
    """
    if ":" in task:
        find_modules_here()
    looking = [spec for spec in suites if spec.knows is not None]
    sure = [spec for spec in looking if not named and spec.knows is not None and spec.knows(task)]
    light = [spec for spec in suites if spec.knows is None]
    others = [spec for spec in looking if spec not in sure and (named or ":" in task)]
    for group in (sure, light, others):
        told = [(spec, info) for spec in group if (info := spec.describe(task, env)) is not None]
        if told:
            return told
    return []
