"""How the environment is wrapped: by the options `params.env`, and by the network.

The former are those of Isaac Lab's files. rl_games itself does not read them.
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
from rltrain_adapters import is_image
from rltrain_rl_games.refusals import GROUPS_NETWORK

_KEYS = ("clip_observations", "clip_actions", "obs_groups", "concate_obs_groups")


@dataclass(frozen=True)
class Wrapping:
    """Bounds of observations and actions, and the observation groups that rl_games reads."""

    clip_observations: float = math.inf
    clip_actions: float = math.inf
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By rl_games' names "obs" and "states"."""
    keep_groups: bool = False
    """Whether the groups of "obs" are not concatenated; those of "states" always are."""
    channels_first: bool = False
    """Whether the network does not permute images itself, whose channels come last."""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Wrapping:
        """Read `params.env`; keys that are not Isaac Lab's are ignored."""
        given = {key: value for key, value in (params.get("env") or {}).items() if key in _KEYS}
        keep_groups, network = not given.pop("concate_obs_groups", True), _network(params)
        groups = given.pop("obs_groups", None) or {}
        if keep_groups and network != GROUPS_NETWORK:
            raise UsageError(
                f"agent.params.env.concate_obs_groups=false: only the network {GROUPS_NETWORK} "
                f"reads separate groups, and params.network.name is {network}. Leave the option "
                "out to concatenate the groups."
            )
        if network == GROUPS_NETWORK and not (keep_groups and len(groups.get("obs") or ()) > 1):
            raise UsageError(
                f"agent.params.network.name={network}: reads several groups. List them in "
                "params.env.obs_groups.obs, with concate_obs_groups: false."
            )
        for key, value in given.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise UsageError(f"agent.params.env.{key}={value}: must be a number above 0.")
        groups = {name: tuple(names) for name, names in groups.items() if names}
        cnn = (params.get("network") or {}).get("cnn") or {}
        return cls(
            **given,
            groups=groups,
            keep_groups=keep_groups,
            channels_first=not cnn.get("permute_input", True),
        )

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

    def action_space(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        """Return a space with finite bounds; rl_games maps its policies' [-1, 1] onto them."""
        if not isinstance(space, spaces.Box):
            return space
        bound = self.clip_actions if math.isfinite(self.clip_actions) else 1.0
        low = np.where(np.isfinite(space.low), space.low, -bound)
        high = np.where(np.isfinite(space.high), space.high, bound)
        return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def clipped_actions(self, actions: Any) -> Any:
        """Return clipped actions; discrete actions are unchanged."""
        if not math.isfinite(self.clip_actions) or not actions.is_floating_point():
            return actions
        return torch.clamp(actions, -self.clip_actions, self.clip_actions)

    def _clips(self, space: spaces.Space[Any]) -> bool:
        floats = isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
        return floats and math.isfinite(self.clip_observations)


def _network(params: Mapping[str, Any]) -> str | None:
    name: str | None = (params.get("network") or {}).get("name")
    return name
