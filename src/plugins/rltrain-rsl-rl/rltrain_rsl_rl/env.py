"""The session's environment with rsl_rl's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import VectorEnv
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rltrain.errors import UsageError
from rltrain.types import is_image

__all__ = ["RslRlEnv"]


class RslRlEnv(VecEnv):
    """Adapts a `gymnasium.vector.VectorEnv` with SAME_STEP autoreset to rsl_rl's `VecEnv`.

    The members of a `Dict` space are rsl_rl's observation groups; a `Box` is the group "policy".
    Observations are converted to float32, except for uint8 images. Images get their channels first,
    as rsl_rl's convolutions expect them. If an action has two finite bounds, the policy's output is
    clamped to [-1, 1] and mapped to them, so that 0 is the middle of the range. If a bound is
    infinite, the output is not changed.

    Attributes:
        num_envs: number of environments.
        num_actions: size of an action.
        device: device of observations, rewards and dones.
        cfg: the suite's configuration object, or an empty mapping.
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], device: str, clip_actions: float | None = None
    ) -> None:
        """Reset the environments.

        Args:
            env: a suite's environments, with torch arrays of shape (num_envs, ...).
            device: the rank's device.
            clip_actions: bound to which the policy's output is clamped first. It is the option of
                this name in users' files.

        Raises:
            UsageError: rsl_rl does not support the spaces.
        """
        self.env = env
        self.device = device
        self.num_envs = env.num_envs
        self.cfg = getattr(env.unwrapped, "cfg", {})
        groups = _checked_groups(env.single_observation_space)
        self._images = {name for name, group in groups.items() if is_image(group)}
        self._set_actions(env.single_action_space, clip_actions)
        self._own_lengths = torch.zeros(self.num_envs, dtype=torch.long, device=device)
        self._observations = self._convert(env.reset()[0])

    @property
    def unwrapped(self) -> Any:
        """The suite's environment, from which extensions of rsl_rl read `step_dt`."""
        return self.env.unwrapped

    @property
    def max_episode_length(self) -> int | torch.Tensor:
        """Steps after which an episode is truncated.

        Raises:
            UsageError: the environment does not offer it.
        """
        self._check_offers("max_episode_length")
        length: int | torch.Tensor = self.env.unwrapped.max_episode_length  # type: ignore[attr-defined]
        return length

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps of each environment's current episode, shape (num_envs,)."""
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
            (num_envs,), the truncations that are not terminations, and "log" if there is one.
        """
        # rsl_rl steps in inference mode. A simulator could not change tensors that it created
        # there in place later, outside of inference mode.
        with torch.inference_mode(False), torch.no_grad():
            observations, rewards, terminations, truncations, info = self.env.step(
                self._scale_actions(actions)
            )
            self._observations = self._convert(observations)
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
        """Return the state of this adapter; the core saves that of the environment."""
        return {"episode_lengths": self._own_lengths}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self._own_lengths = state["episode_lengths"]

    def _set_actions(self, space: Space[Any], clip: float | None) -> None:
        if not isinstance(space, Box):
            raise UsageError(
                f"rsl_rl's policies have continuous actions (Box), not {space}. Choose a task with "
                "continuous actions, or another library."
            )
        self._action_shape = (self.num_envs, *space.shape)
        low = torch.as_tensor(space.low.reshape(-1), dtype=torch.float32, device=self.device)
        high = torch.as_tensor(space.high.reshape(-1), dtype=torch.float32, device=self.device)
        self.num_actions = low.numel()
        finite = low.isfinite() & high.isfinite()
        limit = torch.full_like(low, torch.inf if clip is None else clip)
        one = torch.ones_like(low)
        self._min = torch.maximum(torch.where(finite, -one, low), -limit)
        self._max = torch.minimum(torch.where(finite, one, high), limit)
        self._scale = torch.where(finite, high / 2 - low / 2, one)
        self._center = torch.where(finite, high / 2 + low / 2, torch.zeros_like(low))

    def _scale_actions(self, actions: torch.Tensor) -> torch.Tensor:
        clamped = actions.to(torch.float32).clamp(self._min, self._max)
        return (clamped * self._scale + self._center).reshape(self._action_shape)

    def _convert(self, observations: Any) -> TensorDict:
        groups = observations if isinstance(observations, Mapping) else {"policy": observations}
        # Copies: rsl_rl stores observations after the next step, and a suite that steps in place
        # overwrites its own arrays in that step.
        tensors = {name: self._copy(name, group) for name, group in groups.items()}
        return TensorDict(tensors, batch_size=[self.num_envs], device=self.device)

    def _copy(self, name: str, group: torch.Tensor) -> torch.Tensor:
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
            f"{groups[wrong]}. Flatten it, or choose another library."
        )
    return groups
