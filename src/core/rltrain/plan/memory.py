"""How much memory a rank needs for what it learns from."""

from __future__ import annotations

import math

from rltrain.types import Iteration, TaskInfo

__all__ = ["storage"]

_FLOAT = 4
"""Bytes of a number that is no byte of an image: libraries keep float32."""

_SCALARS = 6
"""Reward, value, return, advantage, log-probability and the ends of episodes: one of each a row."""


def storage(iteration: Iteration, task: TaskInfo, num_envs: int) -> str | None:
    """Say about how much memory a rank's rollouts or its replay buffer take.

    Args:
        iteration: what the library says.
        task: whose observations are counted, all groups of them.
        num_envs: environments a rank.

    Returns:
        The text, or None if only making the environment tells what is observed.
    """
    if task.observations is None:
        return None
    observed = sum(
        math.prod(group.shape)
        * (iteration.image_bytes if group.is_image and group.dtype == "uint8" else _FLOAT)
        for group in task.observations.values()
    )
    # Of an action the distribution is kept too, with a mean and a deviation.
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
