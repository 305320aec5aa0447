"""What the plugin provides. Light: mjlab is imported only for what it alone can tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.options import tuned_in
from rltrain.specs import Spec, SuiteSpec
from rltrain.types import TaskInfo
from rltrain_mjlab.tasks import BUNDLED, bundled_info, has_more, task_info

__all__ = ["describe", "rltrain_provides", "tasks", "tuned"]

_in_folder = tuned_in(Path(__file__).parent / "tuned")


def describe(task: str) -> TaskInfo | None:
    """Return what is known of a task, or None if mjlab's registry does not have it.

    mjlab's own tasks are told by name. Of other packages' tasks the names are known once mjlab has
    been imported, which is done only where there are such packages.
    """
    if task in BUNDLED:
        return bundled_info(task)
    if not has_more():
        return None
    from rltrain_mjlab import registry

    length = registry.episode_steps(task)
    return None if length is None else task_info(task, length)


def tasks() -> list[str]:
    """Return the names of all tasks: mjlab's own come first."""
    if not has_more():
        return list(BUNDLED)
    from rltrain_mjlab import registry

    return list(dict.fromkeys([*BUNDLED, *registry.names()]))


def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
    """Return options for a task: our own file, else what mjlab registers with the task.

    Args:
        task: the task.
        library: in whose format; mjlab's are rsl_rl's, and are translated for the others.
        algorithm: mjlab's are for "ppo".
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
            summary="mjlab's tasks: MuJoCo Warp's physics in batches, on GPU or CPU",
            frameworks=("torch",),
            describe=describe,
            tasks=tasks,
            renders=True,
            tuned=tuned,
        )
    ]
