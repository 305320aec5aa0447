"""What a run is made of: the suite that has its task, and the library that learns it."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.options.run import RunOptions
from rltrain.plugins.ours import how_to_install
from rltrain.plugins.registry import Registry
from rltrain.specs import LibrarySpec, SuiteSpec
from rltrain.types import TaskInfo

_LISTED = 10
"""Tasks of a module that a message names."""

DEFAULT_LIBRARY = "rl_games"
"""The library of tasks whose authors chose none."""

_FILES = (".yaml", ".yml", ".json")
"""Ends of what is a file, there or not."""

_AS_REGISTERED = "_cfg_entry_point"
"""The end of a set's whole name in Isaac Lab's registry, which its users may type too."""


def find_task(
    task: str, env: Mapping[str, Any], suite: str | None, registry: Registry
) -> tuple[SuiteSpec, TaskInfo]:
    """Return the suite that has a task, and what it knows of the task."""
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
    # Two suites of one name cannot be distinguished by it: to get the suite is refused.
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
    module, named, _ = task.partition(":")
    find_modules_here()
    known: list[str] = []
    in_sources: list[str] = []
    # Isaac-Cartpole without Isaac Lab is no misspelled CartPole.
    if not any(each.name.startswith(family) and each.status != "blocked" for each in unusable):
        listed = registry.ask(suites, lambda spec: [*spec.tasks()])
        known = [each for _, names in listed for each in names]
        in_sources = _unimported(module if named else None, suites, registry)
    if named and task in in_sources:
        return (
            f" The sources of {module} have it, but importing {module} does not register "
            "it, or only with the old Gym. Register it in a module of your own."
        )
    found = in_sources if named else _unimported(module, suites, registry)
    has = f" {module} has {', '.join(found)}." if 0 < len(found) <= _LISTED else ""
    return suggest(task, (in_sources or known) if named else known + in_sources) + has


def _unimported(module: str | None, suites: Sequence[SuiteSpec], registry: Registry) -> list[str]:
    """Return the tasks in the sources of a module, or of all installed packages."""
    answers = registry.ask(
        suites, lambda spec: spec.undiscovered_tasks and [*spec.undiscovered_tasks(module)]
    )
    return [each for _, names in answers for each in names]


def having(
    task: str,
    env: Mapping[str, Any],
    suites: Sequence[SuiteSpec],
    registry: Registry,
    chosen: str | None = None,
) -> list[tuple[SuiteSpec, TaskInfo]]:
    """Return the suites that have a task, with what they know of it.

    First those are asked in whose sources it is found, then those that need not look. The others,
    which would start a simulator to say no, are asked only if the user has named them or a module.
    """
    if ":" in task:
        find_modules_here()
    looking = [spec for spec in suites if spec.probably_has is not None]
    asked = registry.ask(looking, lambda x: not chosen and x.probably_has and x.probably_has(task))
    sure = [spec for spec, knows in asked if knows]
    light = [spec for spec in suites if spec.probably_has is None]
    others = [spec for spec in looking if spec not in sure and (chosen or ":" in task)]
    for group in (sure, light, others):
        answers = registry.ask(group, lambda spec: spec.describe(task, env), {chosen or ""})
        if found := list(answers):
            return found
    return []


def find_modules_here() -> None:
    """Let modules in the current folder be imported, as `python -m rltrain` does.

    Called only for a task that the user has named with its module. The folder comes last, so that
    no file there takes the place of an installed package.
    """
    folder = os.getcwd()
    if not {"", folder} & set(sys.path):
        sys.path.append(folder)


def choose_agent(requested: RunOptions, task: TaskInfo) -> tuple[RunOptions, TaskInfo]:
    """Return the options and the task with the registered set of options that the user chose."""
    given, agents = requested.agent_config, task.agents
    if given is None or given.endswith(_FILES) or os.path.exists(given):
        return requested, task
    key = given.removesuffix(_AS_REGISTERED)
    if key not in agents:
        known = ", ".join(agents) or "none"
        raise UsageError(
            f"--agent-config {key}: there is no such file, and no such options are registered with "
            f"the task {task.name}.{suggest(key, agents)} There are: {known}."
        )
    library, algorithm = agents[key]
    if requested.library not in (None, library):
        raise UsageError(
            f"--agent-config {key}: these are options of {library}. Leave out --library "
            f"{requested.library}."
        )
    if (requested.algorithm or algorithm).lower() != algorithm:
        raise UsageError(
            f"--agent-config {key}: these are options of {algorithm}. Leave out --algorithm "
            f"{requested.algorithm}."
        )
    chosen = dataclasses.replace(requested, library=library, algorithm=algorithm, agent_config=None)
    return chosen, dataclasses.replace(task, agent=key)


def choose_library(
    requested: RunOptions, task: TaskInfo, registry: Registry
) -> tuple[LibrarySpec, str, str]:
    """Return the library, its algorithm, and whose choice it was, if not the user's.

    The user's; else that of the task's authors, if it can train this run; else the usual one.
    """
    if requested.library is not None:
        return *get_library(requested.library, requested, registry), ""
    chosen = _of_authors(task, registry)
    if chosen is None:
        return *get_library(DEFAULT_LIBRARY, requested, registry), "the default"
    try:
        return *get_library(chosen, requested, registry), "the choice of the task's authors"
    except UsageError as error:
        usual = get_library(DEFAULT_LIBRARY, requested, registry)
        return *usual, f"the task's authors chose {chosen}, which cannot be used: {error}"


def _of_authors(task: TaskInfo, registry: Registry) -> str | None:
    """Return the library that the authors chose, or one for which alone they have options."""
    theirs = [library for library, algorithm in task.agents.values() if algorithm == "ppo"]
    if task.library is not None or DEFAULT_LIBRARY in theirs:
        return task.library
    installed = registry.names(LibrarySpec)
    return next((library for library in theirs if library in installed), None)


def get_library(name: str, requested: RunOptions, registry: Registry) -> tuple[LibrarySpec, str]:
    """Return a library, and its algorithm."""
    try:
        library = registry.get(LibrarySpec, name)
    except UsageError as error:
        ready = registry.names(LibrarySpec)
        if not ready or all(name != each.name for each in registry.unusable(LibrarySpec)):
            raise
        # Suggest others: the default library may be missing, for example next to mjlab.
        reason = str(error).rstrip(".")
        raise UsageError(f"{reason}. Ready: --library {' or '.join(ready)}.") from None
    if requested.framework not in (able := library.frameworks):
        hint = suggest(requested.framework, able) or f" Give --framework {able[0]}."
        raise UsageError(
            f"--framework {requested.framework}: {library.name} runs on "
            f"{' and '.join(able)} only.{hint}"
        )
    wanted = requested.algorithm or library.algorithms[0]
    for algorithm in library.algorithms:
        if algorithm.lower() == wanted.lower():  # Or PPO.
            return library, algorithm
    raise UsageError(
        f"--algorithm {wanted}: {library.name} is offered with {', '.join(library.algorithms)}."
        f"{suggest(wanted, library.algorithms)}"
    )
