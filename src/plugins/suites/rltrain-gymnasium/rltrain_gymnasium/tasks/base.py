"""The base class of embedded tasks, independent of array framework and device."""

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


@dataclass(frozen=True, kw_only=True)
class BatchedTask(ABC):
    """The physics of many environments at once, as pure functions.

    The fields are the parameters, which a user sets as `env.` options. The methods take the array
    namespace `xp` (numpy, torch or jax.numpy) and use only functions that all three share, so that
    the same code serves all of them, in the dtype of the state.
    """

    name: ClassVar[str]
    action: ClassVar[Literal["continuous", "discrete"]]
    num_actions: ClassVar[int]
    """The number of choices for discrete actions, else the number of components."""
    num_envs: ClassVar[int]
    """The default number of environments per rank."""
    reward_threshold: ClassVar[float | None] = None
    """The return that counts as solved, as in `gymnasium.envs.registration.EnvSpec`."""
    signed: ClassVar[frozenset[str]] = frozenset({"gravity"})
    """Parameters that may be zero or negative."""

    vector_group: ClassVar[str] = "policy"
    """The observation group that `observe` returns. Tasks with images have further groups."""

    time_step: float
    """Time between two steps, in s."""
    max_episode_length: int
    """The time limit of an episode, in steps."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{field.name}={value!r}: must be a number")
            if not math.isfinite(value) or (value <= 0 and field.name not in self.signed):
                kind = "finite" if field.name in self.signed else "positive"
                raise ValueError(f"{field.name}={value!r}: must be a {kind} number")
            if field.name == "max_episode_length" and not isinstance(value, int):
                raise ValueError(f"{field.name}={value!r}: must be a whole number")

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
        """Observations lie in [-bound, bound], for each component."""

    @property
    def image_shapes(self) -> Mapping[str, tuple[int, int, int]]:
        """Height, width and channels of each observation group that is an image."""
        return {}

    @property
    def pixel_coordinates(self) -> tuple[tuple[float, ...], ...]:
        """Constants that `render` receives as arrays on the device."""
        return ()

    @property
    @abstractmethod
    def initial_bound(self) -> tuple[float, ...]:
        """The first state of an episode is uniform in [-bound, bound], for each component."""

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
        """Return the observations of a state: a new array, or the state itself.

        Its shape is (num_envs, components).
        """

    @abstractmethod
    def picture(self, state: Sequence[float]) -> npt.NDArray[np.uint8]:
        """Render one environment, for a video.

        Returns:
            uint8 of shape (height, width, 3).
        """

    def render(self, xp: Any, state: Any, coordinates: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return the image observations of a state.

        Args:
            xp: the array namespace.
            state: shape (num_envs, number of state components).
            coordinates: `pixel_coordinates` as arrays.

        Returns:
            By group, uint8 of shape (num_envs, height, width, channels), as in `image_shapes`.
        """
        return {}
