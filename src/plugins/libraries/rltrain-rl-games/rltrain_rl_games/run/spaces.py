"""What lies between the suite's spaces and rl_games: observation groups, bounds, actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rltrain.errors import UsageError
from rltrain_adapters import is_image
from rltrain_rl_games.declare.options import GROUPS_NETWORK


@dataclass(frozen=True)
class Wrapping:
    """How the environment is wrapped: by `params.env`, as in Isaac Lab's files, and the network.

    rl_games itself does not read `params.env`.
    """

    clip_observations: float = math.inf
    clip_actions: float = math.inf
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The observation groups that are read, by rl_games' names "obs" and "states"."""
    keep_groups: bool = False
    """Whether the groups of "obs" are not concatenated; those of "states" always are."""
    channels_first: bool = False
    """Whether the network does not permute images itself, whose channels come last."""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Wrapping:
        """Read the options `params`; other keys of `params.env` are ignored."""
        env, network = params.get("env") or {}, params.get("network") or {}
        keep_groups, name = not env.get("concate_obs_groups", True), network.get("name")
        groups = {key: tuple(x) for key, x in (env.get("obs_groups") or {}).items() if x}
        if keep_groups and name != GROUPS_NETWORK:
            raise UsageError(
                f"agent.params.env.concate_obs_groups=false: only the network {GROUPS_NETWORK} "
                f"reads separate groups, and params.network.name is {name}. Leave the option "
                "out to concatenate the groups."
            )
        if name == GROUPS_NETWORK and not (keep_groups and len(groups.get("obs", ())) > 1):
            raise UsageError(
                f"agent.params.network.name={name}: reads several groups. List them in "
                "params.env.obs_groups.obs, with concate_obs_groups: false."
            )
        bounds = {key: env[key] for key in ("clip_observations", "clip_actions") if key in env}
        for key, value in bounds.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise UsageError(f"agent.params.env.{key}={value}: must be a number above 0.")
        permutes = (network.get("cnn") or {}).get("permute_input", True)
        return cls(**bounds, groups=groups, keep_groups=keep_groups, channels_first=not permutes)

    def observation_space(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        """Return the space of observations as the network takes them; only floats are clipped."""
        if isinstance(space, spaces.Dict):
            return spaces.Dict({name: self.observation_space(part) for name, part in space.items()})
        if self.channels_first and isinstance(space, spaces.Box) and is_image(space):
            low, high = (np.moveaxis(bound, -1, 0) for bound in (space.low, space.high))
            space = spaces.Box(low, high, dtype=low.dtype.type)
        if not self._clips(space):
            return space
        bound = self.clip_observations
        return spaces.Box(-bound, bound, space.shape, np.float32)

    def observations(self, observations: Any, space: spaces.Space[Any]) -> Any:
        """Return clipped observations, of shape (num_envs, ...), as the network takes them."""
        if self.channels_first and is_image(space):
            observations = observations.movedim(-1, 1)
        if not self._clips(space):
            return observations
        return torch.clamp(observations, -self.clip_observations, self.clip_observations)

    def action_space(self, space: spaces.Box) -> spaces.Box:
        """Return a space with finite bounds; rl_games maps its policies' [-1, 1] onto them."""
        bound = self.clip_actions if math.isfinite(self.clip_actions) else 1.0
        low = np.where(np.isfinite(space.low), space.low, -bound)
        high = np.where(np.isfinite(space.high), space.high, bound)
        return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def _clips(self, space: spaces.Space[Any]) -> bool:
        floats = isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
        return floats and math.isfinite(self.clip_observations)


class Conversion:
    """Converts what passes between the suite and rl_games.

    rl_games calls what the actor reads "obs", and what a separate critic reads "states". If there
    are observation groups, the actor reads `policy`, and the critic `critic`, or `policy` if there
    is none, unless `wrapping` chooses others. The spaces are those of one environment.
    """

    def __init__(
        self, observations: spaces.Space[Any], actions: spaces.Space[Any], wrapping: Wrapping
    ) -> None:
        self._observations = observations
        self._actions = actions
        self.wrapping = wrapping

    def groups(self, name: str) -> tuple[str, ...]:
        """Return the suite's groups that make up "obs" or "states"; ("policy",) if it has none."""
        space = self._observations
        available = list(space) if isinstance(space, spaces.Dict) else []
        chosen = self.wrapping.groups.get(name)
        if chosen is not None:
            if any(group not in available for group in chosen):
                raise UsageError(
                    f"agent.params.env.obs_groups.{name}={list(chosen)}: must name observation "
                    "groups of the task."
                )
            return chosen
        if not available:
            return ("policy",)
        for group in ("policy",) if name == "obs" else ("critic", "policy"):
            if group in available:
                return (group,)
        raise UsageError(
            f"The task's observations have no group 'policy', only {', '.join(available)}: "
            "rl_games' actor would see nothing. Name the actor's group 'policy'."
        )

    def keeps_groups(self, name: str) -> bool:
        """Return whether the groups are not concatenated, since the network reads them by name."""
        return self.wrapping.keep_groups and name == "obs"

    def space(self, name: str) -> spaces.Space[Any]:
        """Return the space of "obs" or "states" of one environment."""
        parts = self._parts(self._observations, name)
        if self.keeps_groups(name):
            return self.wrapping.observation_space(spaces.Dict(parts))
        return self.wrapping.observation_space(_concatenated_space(list(parts.values())))

    def observations(self, observations: Any, name: str) -> Any:
        """Return "obs" or "states" of the suite's observations, shape (num_envs, ...)."""
        spaces_of_parts = self._parts(self._observations, name)
        clipped = {
            group: self.wrapping.observations(part, spaces_of_parts[group])
            for group, part in self._parts(observations, name).items()
        }
        if self.keeps_groups(name):
            return clipped
        parts = list(clipped.values())
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def unseen_images(self) -> list[str]:
        """Return the image groups that the actor ignores, unless the options choose groups."""
        space = self._observations
        if "obs" in self.wrapping.groups or not isinstance(space, spaces.Dict):
            return []
        seen = ("policy", "critic")
        return [name for name, part in space.items() if is_image(part) and name not in seen]

    def action_space(self) -> spaces.Space[Any]:
        """Return the space of one environment's actions in the form that rl_games reads."""
        space = self._actions
        if isinstance(space, spaces.MultiDiscrete):
            return spaces.Tuple([spaces.Discrete(int(count)) for count in space.nvec])
        return self.wrapping.action_space(space) if isinstance(space, spaces.Box) else space

    def actions(self, actions: Any) -> Any:
        """Return the suite's actions for those of rl_games' agents; only floats are clipped."""
        bound = self.wrapping.clip_actions
        if not math.isfinite(bound) or not actions.is_floating_point():
            return actions
        return torch.clamp(actions, -bound, bound)

    def _parts(self, groups: Any, name: str) -> dict[str, Any]:
        """Return the groups that make up "obs" or "states", of a space or of observations."""
        names = self.groups(name)
        if isinstance(groups, (Mapping, spaces.Dict)):
            return {group: groups[group] for group in names}
        return {names[0]: groups}


def _concatenated_space(parts: list[Any]) -> spaces.Space[Any]:
    if len(parts) == 1:
        return parts[0]  # type: ignore[no-any-return]
    if not all(isinstance(part, spaces.Box) and part.shape[:-1] == () for part in parts):
        raise UsageError(
            "agent.params.env.obs_groups: only groups that are vectors can be concatenated."
        )
    low = np.concatenate([part.low for part in parts])
    high = np.concatenate([part.high for part in parts])
    return spaces.Box(low, high, dtype=np.float32)
