"""The session's environment with rl_games' interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rl_games.common.ivecenv import IVecEnv

from rltrain.errors import UsageError
from rltrain.types import is_image
from rltrain_rl_games.refusals import GROUPS_NETWORK
from rltrain_rl_games.wrapping import Wrapping

__all__ = ["RlGamesEnv", "check_observations"]


class RlGamesEnv(IVecEnv):
    """Adapts a `VectorEnv` of torch arrays with SAME_STEP autoreset.

    rl_games bootstraps time-outs from the value of the observation before the last step, so it does
    not need the final observation.

    Args:
        env: the environments. If there are observation groups, the actor reads `policy`.
        states: whether a separate critic reads the group `critic`, or `policy` if there is none.
        wrapping: bounds, and the choice of other groups.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        states: bool = False,
        wrapping: Wrapping | None = None,
    ) -> None:
        self.env = env
        self._states = states
        self._wrapping = wrapping or Wrapping()

    def reset(self) -> Any:
        """Return the first observations, shape (num_envs, ...)."""
        observations, _ = self.env.reset()
        return self._convert(observations)

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Step all environments.

        Returns:
            Observations; rewards and dones, shape (num_envs,); infos, with the truncations that
            are not terminations as `time_outs`.
        """
        observations, rewards, terminations, truncations, info = self.env.step(
            self._wrapping.clipped_actions(actions)
        )
        infos = {"time_outs": truncations & ~terminations, "log": info.get("log", {})}
        dones = (terminations | truncations).byte()
        return self._convert(observations), rewards, dones, infos

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of one environment."""
        actions = _action_space(self.env.single_action_space)
        info = {
            "observation_space": self._space("obs"),
            "action_space": self._wrapping.action_space(actions),
            "agents": 1,
            "value_size": 1,
        }
        if self._states:
            info["state_space"] = self._space("states")
        return info

    def unseen_images(self) -> list[str]:
        """Return the image groups that the actor ignores, unless the options choose groups."""
        space = self.env.single_observation_space
        if "obs" in self._wrapping.groups or not isinstance(space, spaces.Dict):
            return []
        return [
            name
            for name, part in space.items()
            if is_image(part) and name not in ("policy", "critic")
        ]

    def _convert(self, observations: Any) -> Any:
        if not self._states and not self._wrapping.keep_groups:
            return self._part(observations, "obs")
        names = ("obs", "states") if self._states else ("obs",)
        return {name: self._part(observations, name) for name in names}

    def _space(self, name: str) -> spaces.Space[Any]:
        """Return the space of what rl_games calls "obs" or "states"."""
        parts = self._parts(self.env.single_observation_space, name)
        if self._keeps_groups(name):
            return self._wrapping.observation_space(spaces.Dict(parts))
        return self._wrapping.observation_space(_concatenated_space(list(parts.values())))

    def _part(self, observations: Any, name: str) -> Any:
        """Return the observations "obs" or "states", shape (num_envs, ...)."""
        spaces_of_parts = self._parts(self.env.single_observation_space, name)
        clipped = {
            group: self._wrapping.clipped_observations(part, spaces_of_parts[group])
            for group, part in self._parts(observations, name).items()
        }
        if self._keeps_groups(name):
            return clipped
        parts = list(clipped.values())
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def _keeps_groups(self, name: str) -> bool:
        """Return whether the groups are not concatenated, since the network reads them by name."""
        return self._wrapping.keep_groups and name == "obs"

    def _parts(self, groups: Any, name: str) -> dict[str, Any]:
        """Return the groups that make up "obs" or "states"."""
        chosen = self._wrapping.groups.get(name)
        if chosen is None:
            default = ("policy",) if name == "obs" else ("critic", "policy")
            return {"policy": _first_group(groups, *default)}
        absent = [group for group in chosen if group not in list(groups)]
        if absent or not isinstance(groups, (Mapping, spaces.Dict)):
            raise UsageError(
                f"agent.params.env.obs_groups.{name}={list(chosen)}: must name observation groups "
                "of the task."
            )
        return {group: groups[group] for group in chosen}


def check_observations(env: RlGamesEnv, params: Mapping[str, Any]) -> None:
    """Check what is known only once the environments exist.

    Raises:
        UsageError: rl_games' networks cannot read the observations.
    """
    unseen = env.unseen_images()
    if unseen:
        raise UsageError(
            f"The task has images beside the group `policy`, {', '.join(unseen)}, which rl_games' "
            "actor would not see. List the groups that it reads in "
            "agent.params.env.obs_groups.obs; for images beside a vector, also give "
            "agent.params.env.concate_obs_groups=false and "
            f"agent.params.network.name={GROUPS_NETWORK}."
        )
    info = env.get_env_info()
    for name, group in (("observation_space", "policy"), ("state_space", "critic")):
        parts = [info.get(name)]
        if isinstance(parts[0], spaces.Dict) and params["network"]["name"] == GROUPS_NETWORK:
            parts = list(parts[0].values())
        others = [part for part in parts if part is not None and not isinstance(part, spaces.Box)]
        if others:
            raise UsageError(
                f"The observation group {group!r} is, or contains, {others[0]}, which rl_games' "
                "networks and normalize_input cannot read. Make each group one array (Box), or "
                "use --library skrl, whose options can name parts."
            )
    shape = info["observation_space"].shape
    if params["algo"]["name"] == "sac" and (shape is None or len(shape) != 1):
        raise UsageError(
            "rl_games' SAC reads only vectors; the task's observations have the shape "
            f"{shape}. Use --algorithm ppo with params.network.cnn."
        )


def _first_group(groups: Any, *names: str) -> Any:
    """Return the first of these groups that exists, or the argument if it has no groups."""
    if not isinstance(groups, (Mapping, spaces.Dict)):
        return groups
    available = list(groups)  # `in` of a Dict space tests for an observation, not a name.
    for name in names:
        if name in available:
            return groups[name]
    raise UsageError(
        f"The task's observations have no group 'policy', only {', '.join(available)}: rl_games' "
        "actor would see nothing. Name the actor's group 'policy'."
    )


def _concatenated_space(parts: list[Any]) -> spaces.Space[Any]:
    """Return the space of concatenated groups."""
    if len(parts) == 1:
        return parts[0]  # type: ignore[no-any-return]
    if not all(isinstance(part, spaces.Box) and part.shape[:-1] == () for part in parts):
        raise UsageError(
            "agent.params.env.obs_groups: only groups that are vectors can be concatenated."
        )
    low = np.concatenate([part.low for part in parts])
    high = np.concatenate([part.high for part in parts])
    return spaces.Box(low, high, dtype=np.float32)


def _action_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the action space in the form that rl_games reads."""
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.Tuple([spaces.Discrete(int(count)) for count in space.nvec])
    return space
