"""Chooses the library of a run, and its algorithm."""

from __future__ import annotations

import dataclasses
import os

from rltrain.errors import UsageError, suggest
from rltrain.options.run import RunOptions
from rltrain.plugins.registry import Registry
from rltrain.specs import LibrarySpec, SuiteSpec
from rltrain.types import TaskInfo

DEFAULT_LIBRARY = "rl_games"
"""The library of tasks whose authors chose none."""

_FILES = (".yaml", ".yml", ".json")
"""Ends of what is a file, there or not."""

_AS_REGISTERED = "_cfg_entry_point"
"""The end of a set's whole name in Isaac Lab's registry, which its users may type too."""


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
        not_ready = [record.name for record in registry.records if record.status != "ready"]
        if not ready or name not in not_ready:
            raise
        # Suggest others: the default library may be missing, for example next to mjlab.
        reason = str(error).rstrip(".")
        raise UsageError(f"{reason}. Ready: --library {' or '.join(ready)}.") from None
    if requested.framework not in (able := library.frameworks):
        raise UsageError(
            f"--framework {requested.framework}: {library.name} runs on "
            f"{' and '.join(able)} only."
            + (suggest(requested.framework, able) or f" Give --framework {able[0]}.")
        )
    names = {known.lower(): known for known in library.algorithms}
    algorithm = names.get((requested.algorithm or library.algorithms[0]).lower())  # Or PPO.
    if algorithm is None:
        raise UsageError(
            f"--algorithm {requested.algorithm}: {library.name} is offered with "
            f"{', '.join(library.algorithms)}."
            f"{suggest(requested.algorithm or '', library.algorithms)}"
        )
    return library, algorithm


def check_framework(
    requested: RunOptions, chosen: LibrarySpec, suite: SuiteSpec, registry: Registry
) -> None:
    """Refuse a framework whose arrays the environments cannot return."""
    if requested.framework in suite.frameworks:
        return
    framework = suite.frameworks[0]
    able = [spec.name for spec in registry.all(LibrarySpec) if framework in spec.frameworks]
    library = chosen.name if chosen.name in able else " or ".join(able)
    instead = (
        f"Give --framework {framework} --library {library}."
        if able
        else f"No installed library works with {framework}."
    )
    raise UsageError(
        f"--framework {requested.framework}: the environments of the suite {suite.name} support "
        f"{' and '.join(suite.frameworks)} only. {instead}"
    )
