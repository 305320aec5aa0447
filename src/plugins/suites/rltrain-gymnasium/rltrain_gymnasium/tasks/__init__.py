"""The embedded tasks: they need only the tensor framework, and run on any device.

Importing this package imports no tensor framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.errors import UsageError
from rltrain_adapters import unknown_env_option
from rltrain_gymnasium.tasks.base import BatchedTask
from rltrain_gymnasium.tasks.camera import (
    CartPoleCamera,
    CartPoleContinuousCamera,
    CartPoleContinuousCameraAndMotion,
)
from rltrain_gymnasium.tasks.classic import CartPole, CartPoleContinuous, Pendulum

EMBEDDED: dict[str, type[BatchedTask]] = {
    task.name: task
    for task in (
        CartPoleContinuous,
        CartPole,
        Pendulum,
        CartPoleContinuousCamera,
        CartPoleCamera,
        CartPoleContinuousCameraAndMotion,
    )
}
"""The embedded tasks by name."""


def make_task(name: str, options: Mapping[str, Any]) -> BatchedTask:
    """Return an embedded task with some of its options set."""
    return EMBEDDED[name](**options)


def configured(name: str, options: Mapping[str, Any]) -> BatchedTask:
    """Return an embedded task with the user's `env.` options."""
    known = EMBEDDED[name].options()
    for option in options:
        if option not in known:
            raise unknown_env_option(name, option, sorted(known))
    try:
        return make_task(name, options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"env.{error} (task {name}).") from error
