"""The session's environment as rl_games wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rl_games.common.ivecenv import IVecEnv

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo
from rltrain_rl_games.refusals import SEVERAL_GROUPS
from rltrain_rl_games.wrapping import Wrapping

__all__ = ["RlGamesEnv", "check_observations"]


class RlGamesEnv(IVecEnv):
    """Translates a SAME_STEP `VectorEnv` of torch arrays.

    rl_games bootstraps time-outs from the value of the observation before the last step, so that
    the final observation is not passed on.

    Args:
        env: the environments; of groups of observations, the actor sees `policy`.
        states: whether a critic of its own is to see the group `critic`, or where there is none,
            `policy`.
        wrapping: bounds, and other groups.
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
        return self._observed(observations)

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Step; `time_outs` are truncations that are not terminations too.

        Returns:
            Observations, rewards (num_envs,), dones (num_envs,) and infos.
        """
        observations, rewards, terminations, truncations, info = self.env.step(
            self._wrapping.actions(actions)
        )
        infos = {"time_outs": truncations & ~terminations, "log": info.get("log", {})}
        dones = (terminations | truncations).byte()
        return self._observed(observations), rewards, dones, infos

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of one environment."""
        actions = _actions(self.env.single_action_space)
        info = {
            "observation_space": self._space("obs"),
            "action_space": self._wrapping.space_of_actions(actions),
            "agents": 1,
            "value_size": 1,
        }
        if self._states:
            info["state_space"] = self._space("states")
        return info

    def unseen_images(self) -> list[str]:
        """Return the groups of images that the actor does not see, unless options chose groups."""
        space = self.env.single_observation_space
        if "obs" in self._wrapping.groups or not isinstance(space, spaces.Dict):
            return []
        boxes = {name: part for name, part in space.items() if isinstance(part, spaces.Box)}
        return [
            name
            for name, part in boxes.items()
            if ArrayInfo(part.shape, str(part.dtype)).is_image and name not in ("policy", "critic")
        ]

    def _observed(self, observations: Any) -> Any:
        if not self._states and not self._wrapping.apart:
            return self._part(observations, "obs")
        names = ("obs", "states") if self._states else ("obs",)
        return {name: self._part(observations, name) for name in names}

    def _space(self, name: str) -> spaces.Space[Any]:
        """Return the space of what rl_games calls "obs" or "states"."""
        parts = self._parts(self.env.single_observation_space, name)
        joined = spaces.Dict(parts) if self._apart(name) else _joined_space(list(parts.values()))
        return self._wrapping.space_of_observations(joined)

    def _part(self, observations: Any, name: str) -> Any:
        """Return the observations of this name, shape (num_envs, ...)."""
        spaces_of_parts = self._parts(self.env.single_observation_space, name)
        clipped = {
            group: self._wrapping.observations(part, spaces_of_parts[group])
            for group, part in self._parts(observations, name).items()
        }
        if self._apart(name):
            return clipped
        parts = list(clipped.values())
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def _apart(self, name: str) -> bool:
        """Whether the groups of what rl_games calls "obs" stay apart: our network takes them."""
        return self._wrapping.apart and name == "obs"

    def _parts(self, groups: Any, name: str) -> dict[str, Any]:
        chosen = self._wrapping.groups.get(name)
        if chosen is None:
            usual = ("policy",) if name == "obs" else ("critic", "policy")
            return {"policy": _group(groups, *usual)}
        absent = [group for group in chosen if group not in list(groups)]
        if absent or not isinstance(groups, (Mapping, spaces.Dict)):
            raise UsageError(
                f"agent.params.env.obs_groups.{name}={list(chosen)}: must name observation groups "
                "of the task."
            )
        return {group: groups[group] for group in chosen}


def check_observations(env: RlGamesEnv, params: Mapping[str, Any]) -> None:
    """Check what only made environments can tell.

    Raises:
        UsageError: the observations are none that rl_games' networks take.
    """
    unseen = env.unseen_images()
    if unseen:
        raise UsageError(
            f"The task has images beside the group `policy`, {', '.join(unseen)}, which rl_games' "
            "actor would not see. Name the groups that it sees in agent.params.env.obs_groups.obs, "
            "a list; for images beside a vector, with agent.params.env.concate_obs_groups=false "
            f"and agent.params.network.name={SEVERAL_GROUPS}."
        )
    info = env.get_env_info()
    for name, group in (("observation_space", "policy"), ("state_space", "critic")):
        parts = [info.get(name)]
        if isinstance(parts[0], spaces.Dict) and params["network"]["name"] == SEVERAL_GROUPS:
            parts = list(parts[0].values())
        others = [part for part in parts if part is not None and not isinstance(part, spaces.Box)]
        if others:
            raise UsageError(
                f"The observation group {group!r} is, or holds, {others[0]}, which rl_games' "
                "networks cannot take, nor normalize_input. Give one array (Box) a group, or take "
                "--library skrl, whose options can name parts."
            )
    shape = info["observation_space"].shape
    if params["algo"]["name"] == "sac" and (shape is None or len(shape) != 1):
        raise UsageError(
            f"rl_games' SAC takes observations that are vectors; the task's have the shape {shape}."
            " Use --algorithm ppo with params.network.cnn."
        )


def _group(groups: Any, *names: str) -> Any:
    """Return the first group that is there; what has no groups as it is."""
    if not isinstance(groups, (Mapping, spaces.Dict)):
        return groups
    there = list(groups)  # Of a Dict space, `in` would ask for an observation.
    for name in names:
        if name in there:
            return groups[name]
    raise UsageError(
        f"The task's observations have no group 'policy', only {', '.join(there)}: rl_games' actor "
        "would see nothing. Name the actor's group 'policy'."
    )


def _joined_space(parts: list[Any]) -> spaces.Space[Any]:
    """Return the space of groups that are concatenated."""
    if len(parts) == 1:
        return parts[0]  # type: ignore[no-any-return]
    if not all(isinstance(part, spaces.Box) and part.shape[:-1] == () for part in parts):
        raise UsageError(
            "agent.params.env.obs_groups: only groups that are vectors can be concatenated."
        )
    low = np.concatenate([part.low for part in parts])
    high = np.concatenate([part.high for part in parts])
    return spaces.Box(low, high, dtype=np.float32)


def _actions(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the action space by rl_games' name for it."""
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.Tuple([spaces.Discrete(int(count)) for count in space.nvec])
    return space
