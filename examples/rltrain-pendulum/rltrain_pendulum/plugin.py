"""What this plugin provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.specs import Spec, SuiteSpec
from rltrain.types import TaskInfo

__all__ = ["OPTIONS", "TASK", "rltrain_provides", "with_defaults"]

TASK = "pendulum/SwingUp-v0"
OPTIONS = {"max_episode_length": 200, "torque": 2.0}
"""The options of the task with their defaults: env.torque=3.0."""


def describe(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    """Describe the task; return None for a task of another suite."""
    if task != TASK:
        return None
    return TaskInfo(
        name=task,
        action="continuous",
        num_envs=64,
        max_episode_length=int(with_defaults(env)["max_episode_length"]),
        options=OPTIONS,
    )


def with_defaults(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of the task.

    Raises:
        UsageError: an `env.` option is wrong.
    """
    for key, value in env.items():
        if key not in OPTIONS:
            raise UsageError(f"env.{key}: no such option. Options: {', '.join(OPTIONS)}.")
        if not isinstance(value, int | float) or value <= 0:
            raise UsageError(f"env.{key}={value}: must be a positive number.")
    return {**OPTIONS, **env}


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the suite."""
    return [
        SuiteSpec(
            name="pendulum",
            factory="rltrain_pendulum.suite:PendulumSuite",
            summary="swing a pendulum up, in numpy",
            frameworks=("torch", "jax"),
            describe=describe,
            tasks=lambda: [TASK],
        )
    ]
