"""Tasks of Gymnasium with short episodes and observations of several kinds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from gymnasium.spaces import Box

from rltrain_gymnasium.batched import make_batched
from rltrain_gymnasium.tasks import EMBEDDED

STEPS = 40
CAMERA = "rltrain/CartPoleContinuousCamera-v1"
"""The policy sees an image, the critic the state."""


class Image(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Where the pendulum points is a spot, its velocity the brightness of a second image."""

    def __init__(self, **options: Any) -> None:
        super().__init__(PendulumEnv(**options))
        self.observation_space = Box(0, 255, (12, 12, 2), np.uint8)

    def observation(self, observation: Any) -> Any:
        x, y, velocity = observation
        place = np.linspace(-1.0, 1.0, 12)
        spot = np.exp(-4 * ((place[:, None] - x) ** 2 + (place - y) ** 2))
        speed = np.full_like(spot, 0.5 + velocity / 20)
        return (255 * np.stack([spot, speed], -1)).astype(np.uint8)


class One(gymnasium.Env[Any, Any]):
    """One environment of an embedded task; those are batched, and draw as their framework does."""

    def __init__(self, task: str) -> None:
        self._env = make_batched(1, task, "torch")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        observations, info = self._env.reset(seed=seed)
        return _first(observations), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        observations, *outcome, info = self._env.step(torch.from_numpy(action[None]))
        reward, terminated, truncated = (x[0].item() for x in outcome)
        return _first(observations), reward, terminated, truncated, info


def _first(observations: Any) -> Any:
    return {name: group[0].numpy() for name, group in observations.items()}


def make(task: str) -> gymnasium.Env[Any, Any]:
    """Return an environment as a program without rltrain has it."""
    return One(task) if task in EMBEDDED else gymnasium.make(task)


def register() -> None:
    """Make the tasks known to Gymnasium."""
    tasks = {"Vector": PendulumEnv, "Image": Image, "Choice": CartPoleEnv}
    for name, env in tasks.items():
        gymnasium.register(f"Exported{name}-v0", env, max_episode_steps=STEPS)
