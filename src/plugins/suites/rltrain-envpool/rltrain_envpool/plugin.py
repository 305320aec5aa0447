"""What the plugin provides. Light: EnvPool is imported only to look up one of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.specs import Spec, SuiteSpec
from rltrain.types import TaskInfo
from rltrain_adapters import tuned_options_from

_PREFIX = "envpool/"
"""The prefix of task names, because many of EnvPool's names are Gymnasium's too."""


def describe(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    """Describe a task; return None if EnvPool does not have it."""
    if not task.startswith(_PREFIX):
        return None
    from rltrain_envpool.tasks import describe_task

    return describe_task(task, env)


def tasks() -> list[str]:
    """Return the names of all tasks, except the families whose observations are images."""
    from rltrain_envpool.tasks import learnable

    return [_PREFIX + name for name in learnable()]


def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
    """Return options for a task: its own file, or a common one for tasks with a group `critic`.

    The common file is needed because a library's defaults give the critic the policy's group.
    """
    found = _tuned(task, library, algorithm)
    if found is None and "critic" in (task.observations or {}):
        return _tuned(replace(task, name="asymmetric"), library, algorithm)
    return found


_tuned = tuned_options_from(Path(__file__).parent / "tuned")


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the suite."""
    return [
        SuiteSpec(
            name="envpool",
            factory="rltrain_envpool.suite:EnvPoolSuite",
            summary="EnvPool's tasks, stepped in batches by C++ threads on the CPU",
            frameworks=("torch", "jax"),
            describe=describe,
            tasks=tasks,
            tuned=tuned,
        )
    ]
