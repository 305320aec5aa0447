"""Environments for claims about observations and actions of other kinds, made of the cart-pole."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete, Space
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space

from rltrain_gymnasium.batched import make_batched

__all__ = [
    "BESIDE",
    "CAMERA",
    "CRITIC",
    "MULTI_DISCRETE",
    "PIXELS",
    "Changed",
    "Described",
    "WithCritic",
    "WithImages",
    "WithTwoChoices",
    "mirrored",
    "spots",
]

MULTI_DISCRETE = "ShardsMultiDiscrete-v0"
"""A task whose actions are multi-discrete; its environments are those of `WithTwoChoices`."""

CRITIC = "ShardsCritic-v0"
"""A task with a group for the critic; its environments are those of `WithCritic`."""

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


class Changed(VectorWrapper):
    """The cart-pole with other observations."""

    def __init__(self, num_envs: int, space: Space[Any] | None = None, **options: Any) -> None:
        options = {"max_episode_length": 12, **options}
        task = "rltrain/CartPoleContinuous-v1"
        super().__init__(make_batched(num_envs, task, "torch", **options))
        if space is not None:
            self.single_observation_space = space
            self.observation_space = batch_space(space, num_envs)

    def observe(self, state: torch.Tensor) -> Any:
        """Return the observations of a state, shape (num_envs, 4)."""
        return state

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Reset all environments."""
        state, info = self.env.reset(**arguments)
        return self.observe(state), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        state, *rest, info = self.env.step(actions)
        info = {**info, "final_obs": self.observe(info["final_obs"])}
        return (self.observe(state), *rest, info)


class WithCritic(Changed):
    """The policy sees positions, the critic velocities too."""

    def __init__(self, num_envs: int) -> None:
        groups = {"policy": Box(-9.0, 9.0, (2,)), "critic": Box(-9.0, 9.0, (4,))}
        super().__init__(num_envs, Dict(groups))

    def observe(self, state: torch.Tensor) -> Any:
        """Return both groups."""
        return {"policy": state[:, ::2].clone(), "critic": state}


class WithImages(Changed):
    """Two channels, where cart and pole are bright spots on a line."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, Box(0.0, 1.0, (PIXELS, PIXELS, 2)))

    def observe(self, state: torch.Tensor) -> Any:
        """Return images, shape (num_envs, PIXELS, PIXELS, 2)."""
        return spots(state)


class WithTwoChoices(Changed):
    """A direction and one of three strengths instead of a force."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.single_action_space = MultiDiscrete([2, 3])
        self.action_space = batch_space(self.single_action_space, num_envs)

    def step(self, actions: torch.Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with choices of shape (num_envs, 2)."""
        direction, strength = actions[:, 0] * 2.0 - 1.0, (actions[:, 1] + 1.0) / 3.0
        return super().step((direction * strength)[:, None])


class Described(gymnasium.Env[Any, Any]):
    """Describes a task with its spaces, and stands the trial before a run; nothing learns in it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return any observation."""
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return any observation."""
        return self.observation_space.sample(), 0.0, False, False, {}


class _DescribedChoices(Described):
    """Describes the task with the spaces of `WithTwoChoices`."""

    observation_space = Box(-9.0, 9.0, (4,))
    action_space = MultiDiscrete([2, 3])


class _DescribedGroups(Described):
    """Describes the task with the spaces of `WithCritic`."""

    observation_space = Dict({"policy": Box(-9.0, 9.0, (2,)), "critic": Box(-9.0, 9.0, (4,))})
    action_space = Box(-1.0, 1.0, (1,))


gymnasium.register(CRITIC, _DescribedGroups, max_episode_steps=12)
gymnasium.register(MULTI_DISCRETE, _DescribedChoices, max_episode_steps=12)


def mirrored(env: Any, obs: Any, actions: Any) -> tuple[Any, Any]:
    """Append the mirror images, as rsl_rl's symmetry asks: the cart-pole is symmetric."""
    twice = [
        x if x is None else torch.cat([x, x.apply(torch.neg) if x is obs else -x])
        for x in (obs, actions)
    ]
    return twice[0], twice[1]
