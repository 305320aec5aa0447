"""Estimates the memory that a rank needs for its rollouts or its replay buffer."""

from __future__ import annotations

import math

from rltrain.types import Iteration, TaskInfo

__all__ = ["estimate_memory"]

_FLOAT = 4
"""Bytes per number, except in uint8 images: libraries store float32."""

_SCALARS = 6
"""Numbers per row: reward, value, return, advantage, log-probability, and end of episode."""


def estimate_memory(iteration: Iteration, task: TaskInfo, num_envs: int) -> str | None:
    """Describe about how much memory a rank's rollouts or its replay buffer take.

    Args:
        iteration: the size of an iteration.
        task: the task; all its observation groups count.
        num_envs: environments per rank.

    Returns:
        The text, or None if the observations are unknown before the environment is made.
    """
    if task.observations is None:
        return None
    observed = sum(
        math.prod(group.shape)
        * (iteration.image_bytes if group.is_image and group.dtype == "uint8" else _FLOAT)
        for group in task.observations.values()
    )
    # For a continuous action, libraries also store the distribution: its mean and its deviation.
    action = 3 * sum(task.actions or (1,)) if task.action == "continuous" else 1
    rest = _FLOAT * (action + _SCALARS)
    if iteration.replay_rows is not None:
        total = iteration.replay_rows * (2 * observed + rest)
        return f"about {_readable(total)} a rank for the replay buffer"
    total = iteration.steps * num_envs * (observed + rest)
    return f"about {_readable(total)} a rank for rollouts"


def _readable(count: int) -> str:
    unit, size = next(
        ((unit, size) for unit, size in (("GB", 1e9), ("MB", 1e6)) if count >= size), ("kB", 1e3)
    )
    number = count / size
    return f"{number:.2g} {unit}" if number < 10 else f"{number:.0f} {unit}"
