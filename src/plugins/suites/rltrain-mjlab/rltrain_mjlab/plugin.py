"""What the plugin provides. Light: mjlab is imported only for tasks of other packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.specs import Dialect, Spec, SuiteSpec
from rltrain.types import TaskInfo
from rltrain_adapters import tuned_options_from
from rltrain_adapters.sources import mentions, registered_names
from rltrain_mjlab.dialect import DIALECT
from rltrain_mjlab.tasks import BUNDLED, SAME_SPACES, bundled_info, packages, task_info

_in_folder = tuned_options_from(Path(__file__).parent / "tuned")


def describe(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    """Describe a task with the user's `env.` options; return None if mjlab does not have it.

    mjlab's own tasks are known by name. mjlab must be imported for the tasks of other packages,
    and to check options.

    Args:
        task: "Name", or "module:Name" to import the module that registers it.
        env: the user's.
    """
    if task in BUNDLED and not env:
        return bundled_info(task)
    from rltrain_mjlab import config, registry

    if not registry.has(task):
        return None
    length = config.episode_steps(config.with_options(task, env))
    if task in BUNDLED and not env.keys() - SAME_SPACES:
        return replace(bundled_info(task), max_episode_length=length)
    return task_info(task, length)


def knows(task: str) -> bool:
    """Return whether a task seems to be mjlab's, or one of a package with tasks for it.

    Args:
        task: "Name", which is looked for in the sources of packages that declare tasks; or
            "module:Name", whose module is read.
    """
    module, _, name = task.rpartition(":")
    if module:
        return mentions(module, "mjlab")
    return task in BUNDLED or any(mentions(x, f'"{name}"', f"'{name}'") for x in packages())


def tasks() -> list[str]:
    """Return the names of all tasks, without importing them: mjlab's own come first.

    Those of other packages whose names the code composes from parts are missing.
    """
    where = "register_mjlab_task", "task_id"
    found = [task for package in packages() for task in registered_names(package, *where)]
    return list(dict.fromkeys([*BUNDLED, *found]))


def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
    """Return options for a task: this plugin's file, else those that mjlab registers.

    Args:
        task: the task.
        library: the library; mjlab's options are for rsl_rl, and are translated for others.
        algorithm: the algorithm; mjlab's options are for "ppo".
    """
    options = _in_folder(task, library, algorithm)
    if options is not None or algorithm != "ppo":
        return options
    from rltrain_mjlab.agents import agent_options

    return agent_options(task.name, library)


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the suite."""
    return [
        SuiteSpec(
            name="mjlab",
            factory="rltrain_mjlab.suite:MjlabSuite",
            summary="mjlab's tasks: batched MuJoCo Warp physics, on GPU or CPU",
            frameworks=("torch",),
            describe=describe,
            tasks=tasks,
            probably_has=knows,
            renders=True,
            mujoco_scenes=True,
            tuned=tuned,
            play_overrides={"play": True},
        )
    ]


@hookimpl
def rltrain_dialect() -> Dialect:
    """Say what users of mjlab type."""
    return DIALECT
