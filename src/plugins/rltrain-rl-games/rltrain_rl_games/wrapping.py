"""What files of options say under `params.env`: how the environment is wrapped.

Isaac Lab's files say so, in its words; rl_games itself does not read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rltrain.errors import UsageError
from rltrain_rl_games.refusals import SEVERAL_GROUPS

__all__ = ["Wrapping"]

_KEYS = ("clip_observations", "clip_actions", "obs_groups", "concate_obs_groups")


@dataclass(frozen=True)
class Wrapping:
    """Bounds of observations and actions, and which groups of observations rl_games is given."""

    clip_observations: float = math.inf
    clip_actions: float = math.inf
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By rl_games' names, "obs" and "states"."""
    apart: bool = False
    """Whether several groups of "obs" stay apart; those of "states" are always concatenated."""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Wrapping:
        """Read `params.env`; other keys than Isaac Lab's are left to others.

        Raises:
            UsageError: a bound is none, or groups are to stay apart for a network that takes one
                array.
        """
        told = {key: value for key, value in (params.get("env") or {}).items() if key in _KEYS}
        apart, network = not told.pop("concate_obs_groups", True), _network(params)
        groups = told.pop("obs_groups", None) or {}
        if apart and network != SEVERAL_GROUPS:
            raise UsageError(
                "agent.params.env.concate_obs_groups=false: the network that takes groups apart is "
                f"{SEVERAL_GROUPS}, and params.network.name is {network}. Leave it out: groups are "
                "then concatenated."
            )
        if network == SEVERAL_GROUPS and not (apart and len(groups.get("obs") or ()) > 1):
            raise UsageError(
                f"agent.params.network.name={network}: takes several groups. Name them in "
                "params.env.obs_groups.obs, with concate_obs_groups: false."
            )
        for key, value in told.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise UsageError(f"agent.params.env.{key}={value}: must be a number above 0.")
        groups = {name: tuple(names) for name, names in groups.items() if names}
        return cls(**told, groups=groups, apart=apart)

    def space_of_observations(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        """Return the space of clipped observations; only numbers with a point are clipped."""
        if isinstance(space, spaces.Dict):
            parts = {name: self.space_of_observations(part) for name, part in space.items()}
            return spaces.Dict(parts)
        if not self._clips(space):
            return space
        bound = self.clip_observations
        return spaces.Box(-bound, bound, space.shape, np.float32)

    def observations(self, observations: Any, space: spaces.Space[Any]) -> Any:
        """Return clipped observations."""
        if not self._clips(space):
            return observations
        return torch.clamp(observations, -self.clip_observations, self.clip_observations)

    def space_of_actions(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        """Return a space with bounds: rl_games maps [-1, 1], what its policies give, onto them."""
        if not isinstance(space, spaces.Box):
            return space
        bound = self.clip_actions if math.isfinite(self.clip_actions) else 1.0
        low = np.where(np.isfinite(space.low), space.low, -bound)
        high = np.where(np.isfinite(space.high), space.high, bound)
        return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def actions(self, actions: Any) -> Any:
        """Return clipped actions; choices stay as they are."""
        if not math.isfinite(self.clip_actions) or not actions.is_floating_point():
            return actions
        return torch.clamp(actions, -self.clip_actions, self.clip_actions)

    def _clips(self, space: spaces.Space[Any]) -> bool:
        floats = isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
        return floats and math.isfinite(self.clip_observations)


def _network(params: Mapping[str, Any]) -> str | None:
    name: str | None = (params.get("network") or {}).get("name")
    return name
