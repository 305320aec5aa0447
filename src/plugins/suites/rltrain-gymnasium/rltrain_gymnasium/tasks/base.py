"""The base class of embedded tasks, independent of array framework and device."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

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
        """Advance every environment by one step; return next state, rewards and terminations.

        The state has the shape (num_envs, components), the action (num_envs, num_actions), or
        (num_envs,) integers for discrete actions.
        """

    @abstractmethod
    def observe(self, xp: Any, state: Any) -> Any:
        """Return the observations of a state, (num_envs, components): new, or the state itself."""

    @abstractmethod
    def picture(self, state: Sequence[float]) -> npt.NDArray[np.uint8]:
        """Render one environment for a video, uint8 of shape (height, width, 3)."""

    def render(self, xp: Any, state: Any, coordinates: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return the image observations by group, uint8 (num_envs, height, width, channels).

        `coordinates` are `pixel_coordinates` as arrays.
        """
        return {}


HEIGHT, WIDTH = 320, 480
"""Size of a picture, in pixels."""

BLUE, GRAY, RED = (40, 90, 160), (150, 150, 150), (200, 70, 50)


class Line(NamedTuple):
    """A straight line with round ends; points are (right, up) in m."""

    start: tuple[float, float]
    end: tuple[float, float]
    radius: float
    """Half the thickness, in m."""
    color: tuple[int, int, int]


def lines_as_picture(lines: Iterable[Line], width: float, middle: float) -> npt.NDArray[np.uint8]:
    """Render antialiased lines on white on the CPU, later ones over earlier ones.

    The visible area is `width` m wide, centered at 0 and at the height `middle`. The picture is
    uint8 of shape (HEIGHT, WIDTH, 3).
    """
    import numpy as np

    pixel = width / WIDTH
    across = (np.arange(WIDTH) + 0.5 - WIDTH / 2) * pixel
    up = ((HEIGHT / 2 - 0.5 - np.arange(HEIGHT)) * pixel + middle)[:, None]
    seen = np.full((HEIGHT, WIDTH, 3), 255.0)
    for line in lines:
        (x, y), (right, top) = line.start, line.end
        length = np.hypot(right - x, top - y)
        # A unit vector along the line; any direction for a dot.
        ahead = ((right - x) / length, (top - y) / length) if length else (1.0, 0.0)
        along = np.clip((across - x) * ahead[0] + (up - y) * ahead[1], 0.0, length)
        apart = np.hypot(across - x - along * ahead[0], up - y - along * ahead[1])
        covered = np.clip(0.5 + (line.radius - apart) / pixel, 0.0, 1.0)[..., None]
        seen += covered * (np.array(line.color) - seen)
    return (seen + 0.5).astype(np.uint8)
