"""The environment as rsl_rl wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import VectorEnv
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rltrain.errors import UsageError
from rltrain_rsl_rl.images import is_image

__all__ = ["RslRlEnv"]


class RslRlEnv(VecEnv):
    """Translates a `gymnasium.vector.VectorEnv` with SAME_STEP autoreset to rsl_rl's `VecEnv`.

    Observations of a `Dict` space are rsl_rl's observation groups; those of a `Box` are the group
    "policy". They become float32; but images of bytes stay bytes. Images have their channels first,
    as rsl_rl's convolutions read them. Where an action has two finite bounds, the policy's output
    is clamped to [-1, 1] and mapped onto them, so that an output of 0 is the middle of the range;
    where a bound is infinite, the output passes as it is.

    Attributes:
        num_envs: number of environments.
        num_actions: numbers in one action.
        device: where observations, rewards and dones are.
        cfg: the suite's configuration object, or an empty mapping.
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], device: str, clip_actions: float | None = None
    ) -> None:
        """Reset the environments.

        Args:
            env: as a suite makes it; torch arrays, shape (num_envs, ...).
            device: the rank's device.
            clip_actions: the policy's output is clamped to [-clip_actions, clip_actions] first,
                as the option of this name in users' files means.

        Raises:
            UsageError: the spaces are not of rsl_rl's kind.
        """
        self.env = env
        self.device = device
        self.num_envs = env.num_envs
        self.cfg = getattr(env.unwrapped, "cfg", {})
        groups = _checked_groups(env.single_observation_space)
        self._images = {name for name, group in groups.items() if is_image(group)}
        self._set_actions(env.single_action_space, clip_actions)
        self._own_lengths = torch.zeros(self.num_envs, dtype=torch.long, device=device)
        self._observations = self._grouped(env.reset()[0])

    @property
    def unwrapped(self) -> Any:
        """The suite's own environment; extensions of rsl_rl read `step_dt` from it."""
        return self.env.unwrapped

    @property
    def max_episode_length(self) -> int | torch.Tensor:
        """Steps after which an episode is cut off.

        Raises:
            UsageError: the environment does not offer it.
        """
        self._check_offers("max_episode_length")
        length: int | torch.Tensor = self.env.unwrapped.max_episode_length  # type: ignore[attr-defined]
        return length

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps done in each environment's episode, shape (num_envs,)."""
        lengths: torch.Tensor = getattr(self.env.unwrapped, "episode_length_buf", self._own_lengths)
        return lengths

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        self._check_offers("episode_length_buf")
        self.env.unwrapped.episode_length_buf = lengths  # type: ignore[attr-defined]

    def get_observations(self) -> TensorDict:
        """Return the current observations, batch size [num_envs]."""
        return self._observations

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step all environments.

        Args:
            actions: the policy's output, shape (num_envs, num_actions).

        Returns:
            Observations; rewards and dones, shape (num_envs,); extras with "time_outs", shape
            (num_envs,), the truncations that are no terminations, and "log" where there is one.
        """
        # rsl_rl steps in inference mode; what a simulator keeps from there, it could not change
        # in place when it is reset or read outside.
        with torch.inference_mode(False), torch.no_grad():
            observations, rewards, terminations, truncations, info = self.env.step(
                self._scaled(actions)
            )
            self._observations = self._grouped(observations)
            dones = (terminations | truncations).to(self.device)
            self._own_lengths = (self._own_lengths + 1) * ~dones
            extras: dict[str, Any] = {
                "time_outs": (truncations & ~terminations).to(self.device),
            }
        if isinstance(info.get("log"), Mapping):
            extras["log"] = dict(info["log"])
        return (
            self._observations,
            rewards.to(self.device, torch.float32),
            dones.to(torch.long),
            extras,
        )

    def get_state(self) -> dict[str, Any]:
        """Return what this translation keeps; the environment's own state is the core's."""
        return {"episode_lengths": self._own_lengths}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._own_lengths = state["episode_lengths"]

    def _set_actions(self, space: Space[Any], clip: float | None) -> None:
        if not isinstance(space, Box):
            raise UsageError(
                f"rsl_rl gives continuous actions (Box), not {space}. Take a task with continuous "
                "actions, or another library."
            )
        self._action_shape = (self.num_envs, *space.shape)
        low = torch.as_tensor(space.low.reshape(-1), dtype=torch.float32, device=self.device)
        high = torch.as_tensor(space.high.reshape(-1), dtype=torch.float32, device=self.device)
        self.num_actions = low.numel()
        finite = low.isfinite() & high.isfinite()
        limit = torch.full_like(low, torch.inf if clip is None else clip)
        one = torch.ones_like(low)
        self._least = torch.maximum(torch.where(finite, -one, low), -limit)
        self._most = torch.minimum(torch.where(finite, one, high), limit)
        self._scale = torch.where(finite, high / 2 - low / 2, one)
        self._centre = torch.where(finite, high / 2 + low / 2, torch.zeros_like(low))

    def _scaled(self, actions: torch.Tensor) -> torch.Tensor:
        clamped = actions.to(torch.float32).clamp(self._least, self._most)
        return (clamped * self._scale + self._centre).reshape(self._action_shape)

    def _grouped(self, observations: Any) -> TensorDict:
        groups = observations if isinstance(observations, Mapping) else {"policy": observations}
        # A copy: rsl_rl stores observations after the next step, when a suite that steps in place
        # has written over its own.
        tensors = {name: self._copied(name, group) for name, group in groups.items()}
        return TensorDict(tensors, batch_size=[self.num_envs], device=self.device)

    def _copied(self, name: str, group: torch.Tensor) -> torch.Tensor:
        if name in self._images:
            dtype = torch.uint8 if group.dtype == torch.uint8 else torch.float32
            return group.movedim(-1, 1).to(self.device, dtype, copy=True)
        rows = group.reshape(self.num_envs, *(group.shape[1:] or (1,)))
        return rows.to(self.device, torch.float32, copy=True)

    def _check_offers(self, name: str) -> None:
        if not hasattr(self.env.unwrapped, name):
            raise UsageError(
                f"agent.init_at_random_ep_len: the task's environment does not offer {name}. Leave "
                "the option out."
            )


def _checked_groups(space: Space[Any]) -> Mapping[str, Space[Any]]:
    groups = space.spaces if isinstance(space, Dict) else {"policy": space}
    wrong = next((name for name, group in groups.items() if not isinstance(group, Box)), None)
    if wrong is not None:
        raise UsageError(
            f"rsl_rl reads observations that are a Box or a Dict of Box groups; {wrong!r} is "
            f"{groups[wrong]}. Flatten it, or take another library."
        )
    return groups
