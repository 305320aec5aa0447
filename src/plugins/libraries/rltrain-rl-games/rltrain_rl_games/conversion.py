"""What the suite's spaces, observations and actions are to rl_games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rltrain.errors import UsageError
from rltrain_adapters import is_image
from rltrain_rl_games.wrapping import Wrapping


class Conversion:
    """Converts what passes between the suite and rl_games.

    rl_games calls what the actor reads "obs", and what a separate critic reads "states".

    Args:
        observations: the space of one environment's observations. If there are observation groups,
            the actor reads `policy`, and the critic `critic`, or `policy` if there is none.
        actions: the space of one environment's actions.
        wrapping: bounds, and the choice of other groups.
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
        return [
            name
            for name, part in space.items()
            if is_image(part) and name not in ("policy", "critic")
        ]

    def action_space(self) -> spaces.Space[Any]:
        """Return the space of one environment's actions in the form that rl_games reads."""
        space = self._actions
        if isinstance(space, spaces.MultiDiscrete):
            return spaces.Tuple([spaces.Discrete(int(count)) for count in space.nvec])
        return self.wrapping.action_space(space)

    def actions(self, actions: Any) -> Any:
        """Return the suite's actions for those of rl_games' agents."""
        return self.wrapping.clipped_actions(actions)

    def _parts(self, groups: Any, name: str) -> dict[str, Any]:
        """Return the groups that make up "obs" or "states", of a space or of observations."""
        names = self.groups(name)
        if isinstance(groups, (Mapping, spaces.Dict)):
            return {group: groups[group] for group in names}
        return {names[0]: groups}


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
