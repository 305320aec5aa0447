"""The session's environments behind skrl's wrapper for torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from skrl.envs.wrappers.torch import Wrapper
from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space

from rltrain_skrl.env import FINAL, SessionEnv, replace_next_observations
from rltrain_skrl.spaces import holds_bytes, observation_groups

__all__ = ["SkrlEnv", "with_final_observations"]


class SkrlEnv(SessionEnv, Wrapper):
    """Gives skrl tensors, as float32; but a group of bytes, such as an image, stays bytes."""

    def __init__(self, env: VectorEnv[Any, Any, Any], device: str, log_key: str) -> None:
        """Wrap the environments; see `SessionEnv`."""
        super().__init__(env, torch.device(device), log_key)
        groups = observation_groups(env.single_observation_space).spaces
        self._bytes = {name for name, group in groups.items() if holds_bytes(group)}
        action = env.single_action_space
        self._bounds: tuple[torch.Tensor, torch.Tensor] | None = None
        if isinstance(action, spaces.Box):
            low, high = (
                torch.as_tensor(bound).to(self._device) for bound in (action.low, action.high)
            )
            self._bounds = low, high

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step with actions of shape (N, A)."""
        observations, rewards, terminated, truncated, info = self._env.step(self._native(actions))
        self._observations, self._states = self._flat(observations)
        return (
            self._observations,
            # A copy: skrl's PPO adds the value after a time limit to it in place.
            rewards.reshape(-1, 1).to(torch.float32, copy=True),
            terminated.reshape(-1, 1).bool(),
            truncated.reshape(-1, 1).bool(),
            self._info(info),
        )

    def _flat_group(self, name: str, group: Any) -> torch.Tensor:
        flat: torch.Tensor = flatten_tensorized_space(tensorize_space(self._spaces[name], group))
        return flat if name in self._bytes else flat.to(torch.float32)

    def _native(self, actions: torch.Tensor) -> torch.Tensor:
        """Give the actions the shape and dtype of the task's space, and clip them to it.

        skrl's policies are Gaussians without bounds; they learn from the actions as sampled.
        """
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return actions.reshape(-1).long() + int(space.start)
        actions = actions.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.MultiDiscrete):
            return actions.long()
        return actions if self._bounds is None else torch.clamp(actions, *self._bounds)

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if "final_obs" in info:
            mask = torch.as_tensor(info["_final_obs"], device=self._device).reshape(-1, 1)
            result[FINAL] = (*self._flat(info["final_obs"]), mask)
        if "log" in info:
            metrics = {name: torch.as_tensor(value) for name, value in info["log"].items()}
            result[self._log_key] = {
                name: value.reshape(()) for name, value in metrics.items() if value.numel() == 1
            }
        return result


def with_final_observations(transition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transition with the final observations of episodes that a time limit ended.

    Args:
        transition: the arguments of `record_transition` of skrl's agents, for N environments.
    """
    # An episode that terminates in its last step has no value after it.
    truncated = transition["truncated"] & ~transition["terminated"]
    final = transition["infos"].get(FINAL)
    following = replace_next_observations(transition, final, truncated, torch.where)
    return {**transition, "truncated": truncated, **following}
