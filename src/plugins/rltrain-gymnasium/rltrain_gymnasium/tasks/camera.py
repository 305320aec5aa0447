"""The cart-pole through a camera, drawn in batches where the physics is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rltrain_gymnasium.tasks.cartpole import CartPole, CartPoleContinuous, CartPolePhysics

__all__ = ["CartPoleCamera", "CartPoleContinuousCamera", "CartPoleContinuousCameraAndMotion"]

HEIGHT, WIDTH = 12, 48
"""Of an image, in pixels: the whole track, and from below the cart to the top of the pole."""

CART = 0.2, 0.1
"""Half width and half height of the cart, in m."""

POLE = 0.06
"""Half the pole's thickness, in m."""


@dataclass(frozen=True, kw_only=True)
class Camera(CartPolePhysics):
    """A camera that stands still and sees the track, 0.1 m a pixel with the usual track.

    The pole is white, the cart grey. Edges are smooth: how bright a pixel is tells where in it an
    edge lies, so that much less than a pixel of motion can be seen.
    """

    num_envs: ClassVar[int] = 64

    @property
    def pixel_places(self) -> tuple[tuple[float, ...], ...]:
        """Heights of the rows, from the top, and places of the columns, in m."""
        pixel = self._pixel
        rows = tuple((HEIGHT - 2 - index) * pixel for index in range(HEIGHT))
        return rows, tuple((index - WIDTH / 2 + 0.5) * pixel for index in range(WIDTH))

    @property
    def _pixel(self) -> float:
        """The size of a pixel, in m."""
        return 2 * self.position_limit / WIDTH

    def frame(self, xp: Any, position: Any, angle: Any, places: tuple[Any, ...]) -> Any:
        """Draw carts and poles.

        Args:
            xp: the array namespace.
            position: of the carts in m, shape (num_envs,).
            angle: of the poles from upright in rad, shape (num_envs,).
            places: `pixel_places` as arrays.

        Returns:
            uint8 of shape (num_envs, height, width).
        """
        height, across = places[0][None, :, None], places[1][None, None, :]
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
        """Return how much of a pixel is covered, from how deep its middle lies inside, in m."""
        return xp.clip(0.5 + depth / self._pixel, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class TwoFrames(Camera):
    """The policy sees two frames, the critic may see the state.

    Observations: `policy`, an image whose two channels are the frame of now and one of
    `frame_interval` before; `critic`, the state. The frame of before is drawn from the state of
    now, where cart and pole would have been with their velocities of now: so an episode's first
    image tells the velocities too, and an image depends on nothing but the state.
    """

    vector_group: ClassVar[str] = "critic"
    frame_interval: float = 0.06
    """Time between the two frames, in s."""

    @property
    def image_shapes(self) -> Mapping[str, tuple[int, int, int]]:
        """One image."""
        return {"policy": (HEIGHT, WIDTH, 2)}

    def render(self, xp: Any, state: Any, places: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return both frames, as channels."""
        position, angle = state[:, 0], state[:, 2]
        before = self.frame_interval * state
        frames = (
            self.frame(xp, position, angle, places),
            self.frame(xp, position - before[:, 1], angle - before[:, 3], places),
        )
        return {"policy": xp.stack(frames, -1)}


@dataclass(frozen=True, kw_only=True)
class CartPoleCamera(TwoFrames, CartPole):
    """Push with full force to the left (action 0) or to the right (action 1), by sight."""

    name = "rltrain/CartPoleCamera-v1"


@dataclass(frozen=True, kw_only=True)
class CartPoleContinuousCamera(TwoFrames, CartPoleContinuous):
    """Push with a fraction of the full force, by sight."""

    name = "rltrain/CartPoleContinuousCamera-v1"


@dataclass(frozen=True, kw_only=True)
class CartPoleContinuousCameraAndMotion(Camera, CartPoleContinuous):
    """Push with a fraction of the full force, by the sight of one frame and measured velocities.

    Observations: `policy`, the velocity (m/s) and the angular velocity (rad/s); `camera`, an image
    of one channel, in which they cannot be seen.
    """

    name = "rltrain/CartPoleContinuousCameraAndMotion-v1"

    @property
    def observation_bound(self) -> tuple[float, ...]:
        """Both velocities."""
        return super().observation_bound[1::2]

    @property
    def image_shapes(self) -> Mapping[str, tuple[int, int, int]]:
        """One image."""
        return {"camera": (HEIGHT, WIDTH, 1)}

    def observe(self, xp: Any, state: Any) -> Any:
        """Return both velocities."""
        return state[:, 1::2] * 1.0

    def render(self, xp: Any, state: Any, places: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return the frame of now."""
        return {"camera": self.frame(xp, state[:, 0], state[:, 2], places)[..., None]}
