"""Finds the suite that has a task, and asks as few suites as it takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import RltrainError, UsageError, in_a_line, suggest
from rltrain.plugins.registry import Registry
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo

__all__ = ["find_modules_here", "find_task", "having", "tasks_of"]


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
        hint = _in_sources(task, known) or suggest(task, known)
        raise UsageError(
            f"Unknown task {task!r}.{hint} Suites searched: "
            f"{', '.join(spec.name for spec in suites)}. For one of yours give --task MODULE:NAME."
            f"{registry.not_ready(SuiteSpec)}"
        )
    if len(found) > 1:
        names = ", ".join(spec.name for spec, _ in found)
        raise UsageError(f"Several suites have a task {task!r}: say which by --suite: {names}.")
    return found[0]


def _in_sources(task: str, known: Sequence[str]) -> str:
    """Return what to do if a module's sources have a task, but to import it is not enough."""
    module = task.partition(":")[0]
    if module == task or task not in known:
        return ""
    return (
        f" The sources of {module} have it, but to import {module} does not register it, or not "
        "with Gymnasium but with the old Gym. Register it in a module of your own."
    )


def _known(task: str, suites: Sequence[SuiteSpec]) -> list[str]:
    """Return the names that may be meant: those in the module that the user names, or all."""
    module, named, _ = task.partition(":")
    asked = module if named else None
    told = [each for spec in suites if spec.unimported for each in spec.unimported(asked)]
    known = [each for spec in suites for each in tasks_of(spec)]
    return (told or known) if named else known + told


def tasks_of(suite: SuiteSpec) -> list[str]:
    """Return the tasks that a suite lists.

    Raises:
        UsageError: it cannot.
    """
    try:
        return suite.tasks()
    except RltrainError:
        raise
    except Exception as error:
        raise UsageError(
            f"The suite {suite.name!r}: its tasks() raises {in_a_line(error)}. Its author must "
            "mend it: --no-plugin leaves its plugin out."
        ) from error


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


def find_modules_here() -> None:
    """Let modules in the current folder be imported, as `python -m rltrain` does.

    Called only for a task that the user has named with its module. The folder comes last, so that
    no file there takes the place of an installed package.
    """
    folder = os.getcwd()
    if not {"", folder} & set(sys.path):
        sys.path.append(folder)
