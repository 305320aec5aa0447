"""What an embedded task is, apart from arrays and devices."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["BatchedTask"]


@dataclass(frozen=True, kw_only=True)
class BatchedTask(ABC):
    """The physics of many environments at once, as pure functions.

    The fields are the parameters, which a user sets as `env.` options. The methods take the array
    namespace `xp` (numpy or torch; jax.numpy has the same functions) and use only what the
    namespaces share, so that one text serves all of them, in the dtype of the state.
    """

    name: ClassVar[str]
    action: ClassVar[Literal["continuous", "discrete"]]
    num_actions: ClassVar[int]
    """For discrete actions how many there are to choose from; else how many components."""
    num_envs: ClassVar[int]
    """Environments a rank, when the user does not say."""
    reward_threshold: ClassVar[float | None] = None
    """Return from which the task counts as solved, as in `gymnasium.envs.registration.EnvSpec`."""
    signed: ClassVar[frozenset[str]] = frozenset({"gravity"})
    """Parameters that need not be positive."""

    vector_group: ClassVar[str] = "policy"
    """The observation group that `observe` gives. With images there are others beside it."""

    time_step: float
    """Time between two steps, in s."""
    max_episode_length: int
    """Episodes are cut off after so many steps."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{field.name}={value!r} is not a number")
            if not math.isfinite(value) or (value <= 0 and field.name not in self.signed):
                raise ValueError(f"{field.name}={value!r} is not a positive number")
            if field.name == "max_episode_length" and not isinstance(value, int):
                raise ValueError(f"{field.name}={value!r} is not a whole number")

    @classmethod
    def options(cls) -> dict[str, float]:
        """Return the parameters with their defaults."""
        return {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[misc]

    @property
    def action_bound(self) -> float:
        """Continuous actions lie in [-action_bound, action_bound]; others are clipped."""
        return 1.0

    @property
    @abstractmethod
    def observation_bound(self) -> tuple[float, ...]:
        """Observations lie in [-bound, bound], component by component."""

    @property
    def image_shapes(self) -> Mapping[str, tuple[int, int, int]]:
        """Height, width and channels of the observation groups that are images, by name."""
        return {}

    @property
    def pixel_places(self) -> tuple[tuple[float, ...], ...]:
        """Constants that `render` is given as arrays on the device."""
        return ()

    @property
    @abstractmethod
    def initial_bound(self) -> tuple[float, ...]:
        """The first state of an episode is uniform in [-bound, bound], component by component."""

    @abstractmethod
    def step(self, xp: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
        """Advance every environment by one step.

        Args:
            xp: the array namespace.
            state: shape (num_envs, number of state components).
            action: shape (num_envs, num_actions), or (num_envs,) integers for discrete actions.

        Returns:
            The next state, shaped like `state`; the rewards, shape (num_envs,); and whether the
            episode terminated, bool of shape (num_envs,).
        """

    @abstractmethod
    def observe(self, xp: Any, state: Any) -> Any:
        """Return the observations of a state as a new array, shape (num_envs, components)."""

    @abstractmethod
    def picture(self, state: Sequence[float]) -> npt.NDArray[np.uint8]:
        """Draw one environment, for people to see.

        Args:
            state: its components.

        Returns:
            uint8 of shape (height, width, 3).
        """

    def render(self, xp: Any, state: Any, places: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return the images of a state.

        Args:
            xp: the array namespace.
            state: shape (num_envs, number of state components).
            places: `pixel_places` as arrays.

        Returns:
            By group, uint8 of shape (num_envs, height, width, channels), as in `image_shapes`.
        """
        return {}
