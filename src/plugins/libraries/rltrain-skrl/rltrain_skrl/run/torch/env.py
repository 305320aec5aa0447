"""The session's environments as skrl takes them, for torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from skrl.envs.wrappers.torch import Wrapper
from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space

from rltrain_skrl.run.env import FINAL, SessionEnv, replace_next_observations
from rltrain_skrl.run.spaces import Conversion


class TorchConversion(Conversion):
    """Gives skrl float32; but a group of bytes, such as an image, stays bytes."""

    def __init__(self, *arguments: Any) -> None:
        """Convert the tensors of a task; see `Conversion`."""
        super().__init__(*arguments)
        if isinstance(self.action_space, spaces.Box):
            limits = self.action_space.low, self.action_space.high
            self._bounds = [torch.as_tensor(limit, device=self.device) for limit in limits]

    def flat_group(self, name: str, group: Any) -> torch.Tensor:
        """Return skrl's observations or states; see `Conversion`."""
        tensors = tensorize_space(self.spaces[name], group, device=self.device)
        flat: torch.Tensor = flatten_tensorized_space(tensors)
        return flat if name in self.bytes else flat.to(torch.float32)

    def integers(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of int64."""
        return x.long()

    def clip(self, actions: torch.Tensor) -> torch.Tensor:
        """Return continuous actions within the bounds of their space."""
        return torch.clamp(actions, *self._bounds)


class SkrlEnv(SessionEnv, Wrapper):
    """Gives skrl tensors, as float32; but a group of bytes, such as an image, stays bytes."""

    conversion_class = TorchConversion

    def __init__(self, env: VectorEnv[Any, Any, Any], device: str, log_key: str) -> None:
        """Wrap the environments; see `SessionEnv`."""
        super().__init__(env, torch.device(device), log_key)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step with actions of shape (N, A)."""
        native = self._conversion.native(actions)
        observations, rewards, terminated, truncated, info = self._env.step(native)
        self._observations, self._states = self._flatten(observations)
        return (
            self._observations,
            # A copy: skrl's PPO adds the value after a time limit to it in place.
            rewards.reshape(-1, 1).to(torch.float32, copy=True),
            terminated.reshape(-1, 1).bool(),
            truncated.reshape(-1, 1).bool(),
            self._info(info),
        )

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if "final_obs" in info:
            mask = torch.as_tensor(info["_final_obs"], device=self._device).reshape(-1, 1)
            result[FINAL] = (*self._flatten(info["final_obs"]), mask)
        if "log" in info:
            metrics = {name: torch.as_tensor(value) for name, value in info["log"].items()}
            result[self._log_key] = {
                name: value.reshape(()) for name, value in metrics.items() if value.numel() == 1
            }
        return result


def with_final_observations(transition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `record_transition` with the final observations of episodes."""
    # An episode that terminates in its last step has no value after it.
    truncated = transition["truncated"] & ~transition["terminated"]
    final = transition["infos"].get(FINAL)
    following = replace_next_observations(transition, final, truncated, torch.where)
    return {**transition, "truncated": truncated, **following}
