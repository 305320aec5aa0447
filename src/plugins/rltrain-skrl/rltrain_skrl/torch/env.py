"""The session's environments as skrl's wrapper wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from skrl.envs.wrappers.torch import Wrapper
from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space

from rltrain_skrl.spaces import as_floats, holds_bytes, observation_groups

__all__ = ["FINAL", "SkrlEnv", "with_final_observations"]

FINAL = "final"
"""Key of `info` with (observations, states, mask): what ended episodes ended in, where known."""


class SkrlEnv(Wrapper):
    """Gives skrl flat tensors: observations (N, D), and columns (N, 1) for the rest.

    Which groups are skrl's observations and states, see `rltrain_skrl.spaces.observation_groups`.
    They become float32; but a group of bytes, such as an image, stays bytes.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], device: str, log_key: str) -> None:
        """Wrap the environments.

        Args:
            env: with torch tensors on `device`, and SAME_STEP autoreset.
            device: this rank's device.
            log_key: the key of `info` under which skrl's trainer looks for figures to record.

        Raises:
            UsageError: the observations are groups, and none is `policy`.
        """
        super().__init__(env)
        self._device = torch.device(device)
        self._log_key = log_key
        groups, self._grouped, self._joined = observation_groups(env.single_observation_space)
        self._spaces = {name: as_floats(group) for name, group in groups.items()}
        self._bytes = {name for name, group in groups.items() if holds_bytes(group)}
        action = env.single_action_space
        self._bounds: tuple[torch.Tensor, torch.Tensor] | None = None
        if isinstance(action, spaces.Box):
            low, high = (
                torch.as_tensor(bound).to(self._device) for bound in (action.low, action.high)
            )
            self._bounds = low, high
        self._observations: torch.Tensor | None = None
        self._states: torch.Tensor | None = None

    @property
    def num_envs(self) -> int:
        """Environments of this rank: N."""
        return int(self._env.num_envs)

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Space of one environment's observation."""
        return self._spaces["policy"]

    @property
    def state_space(self) -> spaces.Space[Any] | None:
        """Space of one environment's state, or None."""
        return self._spaces.get("critic")

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of one environment's action."""
        space: spaces.Space[Any] = self._env.single_action_space
        return space

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the current observations; only the first call resets.

        skrl's trainer resets a single environment when its episode ends, but that has already been
        done within the step: a second reset would throw an episode away.
        """
        if self._observations is None:
            observations, _ = self._env.reset()
            self._observations, self._states = self._flat(observations)
        return self._observations, {}

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

    def state(self) -> torch.Tensor | None:
        """Return the states that belong to the last observations, (N, S), or None."""
        return self._states

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Draw, where a window is open; skrl calls it in every step of a run with a window."""
        return self._env.render() if self._env.render_mode == "human" else None

    def close(self) -> None:
        """Do nothing: the session closes the environments."""

    def _flat(self, observations: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        if not self._grouped:
            return self._flat_group("policy", observations), None
        seen = observations if self._joined else observations["policy"]
        policy = self._flat_group("policy", seen)
        if "critic" not in self._spaces:
            return policy, None
        return policy, self._flat_group("critic", observations["critic"])

    def _flat_group(self, name: str, group: Any) -> torch.Tensor:
        flat: torch.Tensor = flatten_tensorized_space(tensorize_space(self._spaces[name], group))
        return flat if name in self._bytes else flat.to(torch.float32)

    def _native(self, actions: torch.Tensor) -> torch.Tensor:
        """Give the actions the shape and type of the task's space, and keep them inside it.

        skrl's policies are Gaussians without bounds; what they learn from is what they drew.
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
            figures = {name: torch.as_tensor(value) for name, value in info["log"].items()}
            result[self._log_key] = {
                name: value.reshape(()) for name, value in figures.items() if value.numel() == 1
            }
        return result


def with_final_observations(transition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transition as skrl means it, where episodes were cut off at their time limit.

    skrl then takes the value of the next observations, but with SAME_STEP autoreset those belong to
    the next episode. The final ones take their place; where the task does not give them, those of
    the step before, which are next to them.

    Args:
        transition: the arguments of `record_transition` of skrl's agents, for N environments.
    """
    changed = dict(transition)
    # An episode that ends by itself at its time limit has no value after it.
    truncated = changed["truncated"] = transition["truncated"] & ~transition["terminated"]
    known = transition["infos"].get(FINAL)
    for index, name in enumerate(("observations", "states")):
        last = transition[name]
        if last is None:
            continue
        if known is not None:
            last = torch.where(known[2], known[index], last)
        following = f"next_{name}"
        changed[following] = torch.where(truncated, last, transition[following])
    return changed
