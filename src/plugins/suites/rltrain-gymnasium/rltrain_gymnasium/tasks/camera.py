"""The cart-pole with camera images, rendered in batches on the device of the physics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rltrain_gymnasium.tasks.classic import CartPole, CartPoleContinuous, CartPolePhysics

HEIGHT, WIDTH = 12, 48
"""Size of an image in pixels. It shows the whole track, from below the cart to the pole's top."""

CART = 0.2, 0.1
"""Half width and half height of the cart, in m."""

POLE = 0.06
"""Half the pole's thickness, in m."""


@dataclass(frozen=True, kw_only=True)
class Camera(CartPolePhysics):
    """A fixed camera that sees the whole track: 0.1 m per pixel with the default track.

    The pole is white, the cart gray. Edges are antialiased: a pixel's brightness shows where in it
    an edge lies, so that motion of much less than a pixel is visible.
    """

    num_envs: ClassVar[int] = 64

    @property
    def pixel_coordinates(self) -> tuple[tuple[float, ...], ...]:
        """Heights of the rows, from the top, and horizontal positions of the columns, in m."""
        pixel = self._pixel
        rows = tuple((HEIGHT - 2 - index) * pixel for index in range(HEIGHT))
        return rows, tuple((index - WIDTH / 2 + 0.5) * pixel for index in range(WIDTH))

    @property
    def _pixel(self) -> float:
        """The size of a pixel, in m."""
        return 2 * self.position_limit / WIDTH

    def frame(self, xp: Any, position: Any, angle: Any, coordinates: tuple[Any, ...]) -> Any:
        """Render carts at positions in m, and poles at angles from upright in rad: (num_envs,).

        Returns uint8 of shape (num_envs, height, width).
        """
        height, across = coordinates[0][None, :, None], coordinates[1][None, None, :]
        across = across - position[:, None, None]
        sine, cosine = xp.sin(angle)[:, None, None], xp.cos(angle)[:, None, None]
        along = xp.clip(across * sine + height * cosine, 0.0, self.pole_length)
        apart = (across - along * sine) ** 2 + (height - along * cosine) ** 2
        pole = self._coverage(xp, POLE - xp.sqrt(apart))
        half_width, half_height = CART
        cart = self._coverage(xp, half_width - xp.abs(across)) * self._coverage(
            xp, half_height - xp.abs(height)
        )
        return xp.asarray(255.0 * xp.maximum(pole, 0.5 * cart) + 0.5, dtype=xp.uint8)

    def _coverage(self, xp: Any, depth: Any) -> Any:
        """Return the covered fraction of a pixel, given its center's depth inside a shape in m."""
        return xp.clip(0.5 + depth / self._pixel, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class TwoFrames(Camera):
    """The policy sees two frames; the critic can see the state.

    Observations: `policy`, an image with two channels, the current frame and the one
    `frame_interval` earlier, extrapolated back from the current positions and velocities, so that
    even an episode's first image shows these; `critic`, the state.
    """

    vector_group: ClassVar[str] = "critic"
    frame_interval: float = 0.06
    """Time between the two frames, in s."""

    @property
    def image_shapes(self) -> Mapping[str, tuple[int, int, int]]:
        """One image."""
        return {"policy": (HEIGHT, WIDTH, 2)}

    def render(self, xp: Any, state: Any, coordinates: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return both frames, as channels."""
        position, angle = state[:, 0], state[:, 2]
        before = self.frame_interval * state
        frames = (
            self.frame(xp, position, angle, coordinates),
            self.frame(xp, position - before[:, 1], angle - before[:, 3], coordinates),
        )
        return {"policy": xp.stack(frames, -1)}


@dataclass(frozen=True, kw_only=True)
class CartPoleCamera(TwoFrames, CartPole):
    """Push with full force to the left (action 0) or right (action 1), given images."""

    name = "rltrain/CartPoleCamera-v1"


@dataclass(frozen=True, kw_only=True)
class CartPoleContinuousCamera(TwoFrames, CartPoleContinuous):
    """Push with a fraction of the full force, given images."""

    name = "rltrain/CartPoleContinuousCamera-v1"


@dataclass(frozen=True, kw_only=True)
class CartPoleContinuousCameraAndMotion(Camera, CartPoleContinuous):
    """Push with a fraction of the full force, given one frame and the measured velocities.

    Observations: `policy`, the velocity (m/s) and the angular velocity (rad/s); `camera`, an image
    with one channel, which does not show the velocities.
    """

    name = "rltrain/CartPoleContinuousCameraAndMotion-v1"

    @property
    def observation_bound(self) -> tuple[float, ...]:
        """The bounds of both velocities."""
        return super().observation_bound[1::2]

    @property
    def image_shapes(self) -> Mapping[str, tuple[int, int, int]]:
        """One image."""
        return {"camera": (HEIGHT, WIDTH, 1)}

    def observe(self, xp: Any, state: Any) -> Any:
        """Return both velocities."""
        return state[:, 1::2] * 1.0

    def render(self, xp: Any, state: Any, coordinates: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return the current frame."""
        return {"camera": self.frame(xp, state[:, 0], state[:, 2], coordinates)[..., None]}
