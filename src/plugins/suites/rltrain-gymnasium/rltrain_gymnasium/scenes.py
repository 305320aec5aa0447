"""The MuJoCo scene of Gymnasium's environments, for viewers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any


def scene_of(envs: Sequence[Any]) -> Callable[[int], tuple[Any, Any]] | None:
    """Return what gives an environment's `MjModel` and `MjData`; None if they have none.

    Gymnasium's MuJoCo environments, and those of others that follow them, have them as `model` and
    `data`.
    """
    mujoco = sys.modules.get("mujoco")  # Who simulates with it has imported it.
    if mujoco is None or not isinstance(getattr(envs[0].unwrapped, "model", None), mujoco.MjModel):
        return None

    def scene(index: int) -> tuple[Any, Any]:
        env = envs[index].unwrapped
        return env.model, env.data

    return scene
