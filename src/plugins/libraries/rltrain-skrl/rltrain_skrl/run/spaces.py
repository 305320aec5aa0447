"""Observation groups and actions of a task as skrl takes and gives them, for every framework."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rltrain.errors import UsageError
from rltrain_adapters import is_image

Space = spaces.Space[Any]


class Groups(NamedTuple):
    """The observations of a task, as skrl gets them."""

    spaces: dict[str, Space]
    """By name; `policy` is skrl's observations, `critic` its states."""
    grouped: bool
    """Whether the task itself has groups."""
    joined: bool
    """Whether skrl's observations are several groups of the task."""


def observation_groups(space: Space) -> Groups:
    """Return the observation groups of a task.

    The group `policy` of a `Dict` space is skrl's observations, the group `critic` its states. If
    there are groups of images too, skrl's observations are a `Dict` of `policy` and these.
    """
    if not isinstance(space, spaces.Dict):
        return Groups({"policy": space}, False, False)
    if "policy" not in space.spaces:
        raise UsageError(
            f"The task's observation groups are {', '.join(space.spaces)}; skrl needs one that "
            "is named `policy` (and takes `critic`, if there is one, as the states)."
        )
    groups = dict(space.spaces)
    images = {
        name: part
        for name, part in groups.items()
        if name not in ("policy", "critic") and is_image(part)
    }
    if images:
        groups["policy"] = spaces.Dict({"policy": groups["policy"], **images})
    return Groups(groups, True, bool(images))


def holds_bytes(space: Space | None) -> bool:
    """Whether observations are bytes, as most images are."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8


def _as_floats(space: Space) -> Space:
    """Return the space after conversion to floats; skrl builds models from a sample of it."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _as_floats(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_as_floats(part) for part in space.spaces])
    if not isinstance(space, spaces.Box) or np.issubdtype(space.dtype, np.floating):
        return space
    return spaces.Box(space.low, space.high, dtype=np.float32)


class Conversion(ABC):
    """Makes observations flat, (N, D), and gives actions the shape and dtype of the task.

    Attributes:
        device: where the arrays are, as the framework knows it.
        action_space: of one environment.
        spaces: of skrl's observations, `policy`, and of its states, `critic`.
        grouped: whether the task itself has groups.
        seen: the task's groups that are skrl's observations.
        bytes: the groups that stay bytes, with torch.
    """

    def __init__(self, observation_space: Space, action_space: Space, device: Any) -> None:
        """Convert the arrays of a task with these spaces of one environment."""
        groups, self.grouped, self._joined = observation_groups(observation_space)
        self.device = device
        self.action_space = action_space
        self.spaces = {name: _as_floats(group) for name, group in groups.items()}
        self.bytes = {name for name, group in groups.items() if holds_bytes(group)}
        self.seen: tuple[str, ...] = ("policy",)
        if self._joined:
            self.seen = tuple(groups["policy"])  # type: ignore[arg-type]

    @abstractmethod
    def flat_group(self, name: str, group: Any) -> Any:
        """Return skrl's observations or states, shape (N, D)."""

    @abstractmethod
    def integers(self, x: Any) -> Any:
        """Return an array with the framework's usual integers."""

    @abstractmethod
    def clip(self, actions: Any) -> Any:
        """Return continuous actions within the bounds of their space."""

    def native(self, actions: Any) -> Any:
        """Return actions of shape (N, A) as the task's environments take them.

        Those of a box are clipped to it: skrl's policies are Gaussians without bounds, and they
        learn from the actions as sampled.
        """
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return self.integers(actions.reshape(-1)) + int(space.start)
        actions = actions.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.MultiDiscrete):
            return self.integers(actions)
        return self.clip(actions) if isinstance(space, spaces.Box) else actions

    @property
    def observation_space(self) -> Space:
        """Space of one environment's observation."""
        return self.spaces["policy"]

    @property
    def state_space(self) -> Space | None:
        """Space of one environment's state, or None."""
        return self.spaces.get("critic")

    def flat(self, observations: Any) -> tuple[Any, Any]:
        """Return skrl's observations, and its states or None."""
        return self.flat_observations(observations), self.flat_states(observations)

    def flat_observations(self, observations: Any) -> Any:
        """Return skrl's observations, from the task's groups in `seen`."""
        of_group = self.grouped and not self._joined
        return self.flat_group("policy", observations["policy"] if of_group else observations)

    def flat_states(self, observations: Any) -> Any:
        """Return skrl's states, from the task's group `critic`, or None if there is none."""
        if self.state_space is None:
            return None
        return self.flat_group("critic", observations["critic"])
