"""A task's arrays as skrl takes and gives them, for every framework."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gymnasium import spaces

from rltrain_skrl.spaces import as_floats, observation_groups


class Conversion(ABC):
    """Makes observations flat, (N, D), and gives actions the shape and dtype of the task.

    `rltrain_skrl.spaces.observation_groups` says which groups are skrl's observations and states.

    Attributes:
        device: where the arrays are, as the framework knows it.
        action_space: of one environment.
        spaces: of skrl's observations, `policy`, and of its states, `critic`.
        grouped: whether the task itself has groups.
        seen: the task's groups that are skrl's observations.
    """

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], device: Any
    ) -> None:
        """Convert the arrays of a task with these spaces of one environment."""
        groups, self.grouped, self._joined = observation_groups(observation_space)
        self.device = device
        self.action_space = action_space
        self.spaces = {name: as_floats(group) for name, group in groups.items()}
        self.seen: tuple[str, ...] = ("policy",)
        if self._joined:
            self.seen = tuple(groups["policy"])  # type: ignore[arg-type]

    @abstractmethod
    def flat_group(self, name: str, group: Any) -> Any:
        """Return skrl's observations or states, shape (N, D)."""

    @abstractmethod
    def native(self, actions: Any) -> Any:
        """Return actions of shape (N, A) as the task's environments take them.

        Those of a box are clipped to it: skrl's policies are Gaussians without bounds, and they
        learn from the actions as sampled.
        """

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Space of one environment's observation."""
        return self.spaces["policy"]

    @property
    def state_space(self) -> spaces.Space[Any] | None:
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
