"""The cart-pole with observations and actions of every kind, each a task."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from gymnasium.vector.utils import batch_space
from shard_envs import PIXELS, Changed, Described, spots

__all__ = ["ACTIONS", "CAMERA", "OBSERVATIONS", "task"]

Observe = Callable[[torch.Tensor], Any]


def _bytes(state: torch.Tensor) -> torch.Tensor:
    return (spots(state) * 255).to(torch.uint8)


VECTOR, POSITIONS = Box(-9.0, 9.0, (4,)), Box(-9.0, 9.0, (2,))
FLOATS = Box(0.0, 1.0, (PIXELS, PIXELS, 2))
BYTES = Box(0, 255, (PIXELS, PIXELS, 2), "uint8")

OBSERVATIONS: dict[str, tuple[Space[Any], Observe]] = {
    "vector": (VECTOR, lambda state: state),
    "policy and critic": (
        Dict({"policy": POSITIONS, "critic": VECTOR}),
        lambda state: {"policy": state[:, ::2].clone(), "critic": state},
    ),
    "images of floats": (FLOATS, spots),
    "images of bytes": (BYTES, _bytes),
    "images with a vector": (
        Dict({"policy": POSITIONS, "camera": BYTES}),
        lambda state: {"policy": state[:, 1::2].clone(), "camera": _bytes(state)},
    ),
}
"""By name, what one environment shows, and how it comes from the states, shape (num_envs, 4)."""

ACTIONS: dict[str, tuple[Space[Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "continuous": (Box(-1.0, 1.0, (1,)), lambda actions: actions),
    "of other bounds": (Box(-3.0, 3.0, (2,)), lambda actions: actions.mean(1, keepdim=True) / 3),
    "without bounds": (Box(-torch.inf, torch.inf, (2,)), lambda actions: actions[:, :1].tanh()),
    "discrete": (Discrete(3), lambda actions: actions.reshape(-1, 1) - 1.0),
    "multi-discrete": (
        MultiDiscrete([2, 3]),
        lambda actions: (actions[:, :1] * 2.0 - 1.0) * (actions[:, 1:] + 1.0) / 3.0,
    ),
}
"""By name, what one environment takes, and the forces that come of it, shape (num_envs, 1)."""


EPISODE = 6
"""Steps of an episode: some end within a rollout, and some do not."""

CAMERA = "images of bytes and critic"
CAMERAS = {
    "continuous": "rltrain/CartPoleContinuousCamera-v1",
    "discrete": "rltrain/CartPoleCamera-v1",
}
"""Tasks that show the policy images and the critic the state, by their actions."""


class _Batch(Changed):
    def __init__(self, num_envs: int, observations: str, actions: str) -> None:
        space, self._observe = OBSERVATIONS[observations]
        super().__init__(num_envs, space, max_episode_length=EPISODE)
        self.single_action_space, self._force = ACTIONS[actions]
        self.action_space = batch_space(self.single_action_space, num_envs)

    def observe(self, state: torch.Tensor) -> Any:
        """Return the observations of a state."""
        return self._observe(state)

    def step(self, actions: torch.Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with actions of any kind."""
        return super().step(self._force(actions))


class _Described(Described):
    """Describes the task with its spaces."""

    def __init__(self, observations: str, actions: str) -> None:
        self.observation_space = OBSERVATIONS[observations][0]
        self.action_space = ACTIONS[actions][0]


def task(observations: str | None, actions: str | None) -> dict[str, Any]:
    """Return the fields of a claim that select these observations and actions."""
    observations, actions = observations or "vector", actions or "continuous"
    if observations == CAMERA:
        return {"task": CAMERAS[actions], "make_env": None, "env": {"max_episode_length": EPISODE}}
    words = f"{observations} {actions}".replace("-", " ").title().replace(" ", "")
    name = f"Shards{words}-v0"
    if name not in gymnasium.registry:
        described = functools.partial(_Described, observations, actions)
        gymnasium.register(name, described, max_episode_steps=EPISODE)
    make_env = functools.partial(_Batch, observations=observations, actions=actions)
    return {"task": name, "make_env": make_env, "env": {}}
