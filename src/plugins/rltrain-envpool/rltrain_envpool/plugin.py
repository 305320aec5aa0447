"""What the plugin provides. Light: EnvPool is imported only when a task of it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.options import tuned_in
from rltrain.specs import Spec, SuiteSpec
from rltrain.types import TaskInfo

__all__ = ["PREFIX", "describe", "rltrain_provides", "tasks", "tuned"]

PREFIX = "envpool/"
"""Before EnvPool's own name of a task: many are Gymnasium's too."""


def describe(task: str) -> TaskInfo | None:
    """Return what is known of a task, or None if EnvPool does not have it.

    Args:
        task: "envpool/" and the name that EnvPool knows the task by.

    Raises:
        UsageError: the task cannot be made here, or cannot be learned.
    """
    if not task.startswith(PREFIX):
        return None
    from rltrain_envpool.tasks import describe_task

    return describe_task(task)


def tasks() -> list[str]:
    """Return the names of all tasks whose observations are numbers, not images."""
    from rltrain_envpool.tasks import learnable

    return [PREFIX + name for name in learnable()]


def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
    """Return options for a task: its own, or those for all whose critic sees more than the policy.

    A library's own defaults give the critic what the policy sees.
    """
    found = _tuned(task, library, algorithm)
    if found is None and "critic" in (task.observations or {}):
        return _tuned(replace(task, name="asymmetric"), library, algorithm)
    return found


_tuned = tuned_in(Path(__file__).parent / "tuned")


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the suite."""
    return [
        SuiteSpec(
            name="envpool",
            factory="rltrain_envpool.suite:EnvPoolSuite",
            summary="EnvPool's tasks, stepped in batches by threads of C++ on the CPU",
            frameworks=("torch", "jax"),
            describe=describe,
            tasks=tasks,
            tuned=tuned,
        )
    ]
