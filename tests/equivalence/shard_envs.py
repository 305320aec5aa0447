"""The cart-pole with observations and actions of every kind, each a task, and its mirror image."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space

from rltrain_gymnasium.batched import make_batched

CAMERA = "rltrain/CartPoleContinuousCamera-v1"
BESIDE = "rltrain/CartPoleContinuousCameraAndMotion-v1"
"""Tasks that show images of bytes, the second beside a vector."""

PIXELS = 12


def spots(state: torch.Tensor) -> torch.Tensor:
    """Return images of states, shape (num_envs, PIXELS, PIXELS, 2)."""
    place = torch.linspace(-1, 1, PIXELS)
    line = (-((state[:, ::2, None] * 3 - place) ** 2) * 4).exp()
    other = (-((state[:, 1::2, None] / 3 - place) ** 2) * 4).exp()
    return (line[..., None] * other[..., None, :]).movedim(1, -1).contiguous()


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

BOTH = "images of bytes and critic"
CAMERAS = {
    "continuous": "rltrain/CartPoleContinuousCamera-v1",
    "discrete": "rltrain/CartPoleCamera-v1",
}
"""Tasks that show the policy images and the critic the state, by their actions."""


class _Batch(VectorWrapper):
    def __init__(self, num_envs: int, observations: str, actions: str) -> None:
        self._observe, self._force = OBSERVATIONS[observations][1], ACTIONS[actions][1]
        name = "rltrain/CartPoleContinuous-v1"
        super().__init__(make_batched(num_envs, name, "torch", max_episode_length=EPISODE))
        self.single_observation_space = OBSERVATIONS[observations][0]
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = ACTIONS[actions][0]
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        state, info = self.env.reset(**arguments)
        return self._observe(state), info

    def step(self, actions: torch.Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        state, *rest, info = self.env.step(self._force(actions))
        info = {**info, "final_obs": self._observe(info["final_obs"])}
        return (self._observe(state), *rest, info)


class _Described(gymnasium.Env[Any, Any]):
    """Describes a task with its spaces, and stands the trial before a run; nothing learns in it."""

    def __init__(self, observations: str, actions: str) -> None:
        self.observation_space = OBSERVATIONS[observations][0]
        self.action_space = ACTIONS[actions][0]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}


def task(observations: str | None = None, actions: str | None = None) -> dict[str, Any]:
    """Return the fields of a claim that select these observations and actions."""
    observations, actions = observations or "vector", actions or "continuous"
    if observations == BOTH:
        return {"task": CAMERAS[actions], "make_env": None, "env": {"max_episode_length": EPISODE}}
    words = f"{observations} {actions}".replace("-", " ").title().replace(" ", "")
    name = f"Shards{words}-v0"
    if name not in gymnasium.registry:
        described = functools.partial(_Described, observations, actions)
        gymnasium.register(name, described, max_episode_steps=EPISODE)
    make_env = functools.partial(_Batch, observations=observations, actions=actions)
    return {"task": name, "make_env": make_env, "env": {}}


def mirrored(env: Any, obs: Any, actions: Any) -> tuple[Any, Any]:
    """Append the mirror images, as rsl_rl's symmetry asks: the cart-pole is symmetric."""
    twice = [
        x if x is None else torch.cat([x, x.apply(torch.neg) if x is obs else -x])
        for x in (obs, actions)
    ]
    return twice[0], twice[1]
