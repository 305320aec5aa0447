"""Finds the suite that has a task, and asks as few suites as it takes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.plugins.ours import how_to_install
from rltrain.plugins.registry import Registry
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo

_LISTED = 10
"""Tasks of a module that a message names."""


def find_task(
    task: str, env: Mapping[str, Any], suite: str | None, registry: Registry
) -> tuple[SuiteSpec, TaskInfo]:
    """Return the suite that has a task, and what it tells of the task."""
    file, ending, name = task.partition(".py")
    if ending and name[:1] in ("", ":"):
        raise UsageError(
            f"--task {task}: write {os.path.basename(file)}:{name[1:] or 'NAME'}, the module and "
            "not its file, and start in the folder of that file."
        )
    if suite is not None:
        suites = [registry.get(SuiteSpec, suite)]
    else:
        suites = registry.all(SuiteSpec)
        if not suites:
            registry.get(SuiteSpec, "gymnasium")  # Says why there is none.
    found = having(task, env, suites, registry, suite)
    if not found:
        raise UsageError(
            f"Unknown task {task!r}.{_hint(task, suites, registry)} Suites searched: "
            f"{', '.join(spec.name for spec in suites)}. For one of yours give --task MODULE:NAME."
            f"{registry.not_ready(SuiteSpec)}"
        )
    # Two suites of one name cannot be told apart by it: who gets the suite refuses that.
    if len(names := dict.fromkeys(spec.name for spec, _ in found)) > 1:
        said = ", ".join(names)
        raise UsageError(f"Several suites have a task {task!r}: say which by --suite: {said}.")
    return found[0]


def _hint(task: str, suites: Sequence[SuiteSpec], registry: Registry) -> str:
    """Return what may be meant by a task that no suite has."""
    family = re.split("[/-]", task)[0].lower()
    simulator = "isaaclab" if family == "isaac" else family
    unusable = registry.unusable(SuiteSpec)
    there = {spec.name for spec in suites} | {record.name for record in unusable}
    install = how_to_install("suite", simulator)
    if install and simulator not in there:
        return f" {install}"
    known = _known(task, suites, registry)
    if any(each.name.startswith(family) and each.status != "blocked" for each in unusable):
        known = []  # Isaac-Cartpole without Isaac Lab is no misspelled CartPole.
    return _in_sources(task, known) or suggest(task, known) + _of_module(task, suites, registry)


def _in_sources(task: str, known: Sequence[str]) -> str:
    """Return what to do if a module's sources have a task, but to import it is not enough."""
    module = task.partition(":")[0]
    if module == task or task not in known:
        return ""
    return (
        f" The sources of {module} have it, but to import {module} does not register it, or not "
        "with Gymnasium but with the old Gym. Register it in a module of your own."
    )


def _of_module(task: str, suites: Sequence[SuiteSpec], registry: Registry) -> str:
    """Return the tasks of the module that a task names, or is; "" for more than can be read."""
    find_modules_here()
    module = task.partition(":")[0]
    answers = registry.ask(suites, lambda spec: spec.unimported and [*spec.unimported(module)])
    found = [each for _, names in answers for each in names]
    return f" {module} has {', '.join(found)}." if 0 < len(found) <= _LISTED else ""


def _known(task: str, suites: Sequence[SuiteSpec], registry: Registry) -> list[str]:
    """Return the names that may be meant: those in the module that the user names, or all."""
    module, named, _ = task.partition(":")
    asked = module if named else None
    answers = registry.ask(suites, lambda spec: spec.unimported and [*spec.unimported(asked)])
    told = [each for _, names in answers for each in names]
    known = [
        each for _, names in registry.ask(suites, lambda spec: [*spec.tasks()]) for each in names
    ]
    return (told or known) if named else known + told


def having(
    task: str,
    env: Mapping[str, Any],
    suites: Sequence[SuiteSpec],
    registry: Registry,
    chosen: str | None = None,
) -> list[tuple[SuiteSpec, TaskInfo]]:
    """Return the suites that have a task, with what they tell of it.

    First those are asked in whose sources it is found, then those that need not look. The others,
    which would start a simulator to say no, are asked only if the user has named them or a module.
    """
    if ":" in task:
        find_modules_here()
    looking = [spec for spec in suites if spec.knows is not None]
    asked = registry.ask(looking, lambda spec: not chosen and spec.knows and spec.knows(task))
    sure = [spec for spec, knows in asked if knows]
    light = [spec for spec in suites if spec.knows is None]
    others = [spec for spec in looking if spec not in sure and (chosen or ":" in task)]
    for group in (sure, light, others):
        if told := list(registry.ask(group, lambda spec: spec.describe(task, env), {chosen or ""})):
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
