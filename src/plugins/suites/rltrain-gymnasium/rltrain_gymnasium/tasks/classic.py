"""The cart-pole, with discrete or continuous actions, and the torque-limited pendulum."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rltrain_gymnasium.tasks.base import BLUE, GRAY, RED, BatchedTask, Line, lines_as_picture

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class CartPolePhysics(BatchedTask):
    """A pole hinged to a cart on a track, to be kept upright by pushing the cart.

    State and observation: position (m), velocity (m/s), angle from upright (rad), angular velocity
    (rad/s). The reward is 1 per step, including the last. An episode terminates when the cart or
    the pole leaves its limits.

    The equations, the constants and the explicit Euler integration are those of Gymnasium's
    CartPole-v1 (`gymnasium.envs.classic_control.cartpole`), after Florian, "Correct equations for
    the dynamics of the cart-pole system" (2007), without friction.
    """

    num_envs: ClassVar[int] = 512
    reward_threshold: ClassVar[float | None] = 475.0

    gravity: float = 9.8
    """In m/s^2."""
    cart_mass: float = 1.0
    """In kg."""
    pole_mass: float = 0.1
    """In kg."""
    pole_length: float = 1.0
    """The full length (Gymnasium's parameter is half of it), in m."""
    force: float = 10.0
    """The largest force, in N."""
    time_step: float = 0.02
    position_limit: float = 2.4
    """The track's half length, in m."""
    angle_limit: float = math.radians(12)
    """In rad."""
    max_episode_length: int = 500

    @property
    def observation_bound(self) -> tuple[float, ...]:
        """Twice the limits, because the last observation of an episode exceeds them."""
        return 2 * self.position_limit, math.inf, 2 * self.angle_limit, math.inf

    @property
    def initial_bound(self) -> tuple[float, ...]:
        """Nearly upright and nearly at rest."""
        return 0.05, 0.05, 0.05, 0.05

    @abstractmethod
    def push(self, xp: Any, state: Any, action: Any) -> Any:
        """Return the force on the cart in N, shape (num_envs,)."""

    def step(self, xp: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
        """Advance by one Euler step; see the base class."""
        velocity, angle, rate = state[:, 1], state[:, 2], state[:, 3]
        cosine, sine = xp.cos(angle), xp.sin(angle)
        mass, half = self.cart_mass + self.pole_mass, 0.5 * self.pole_length
        swing = self.pole_mass * half
        thrust = (self.push(xp, state, action) + swing * rate * rate * sine) / mass
        angular = (self.gravity * sine - cosine * thrust) / (
            half * (4.0 / 3.0 - self.pole_mass * cosine * cosine / mass)
        )
        linear = thrust - swing * angular * cosine / mass
        change = xp.stack((velocity, linear, rate, angular), -1)
        change *= self.time_step
        change += state
        state = change
        position, angle = xp.abs(state[:, 0]), xp.abs(state[:, 2])
        terminations = (position > self.position_limit) | (angle > self.angle_limit)
        return state, xp.ones_like(position), terminations

    def observe(self, xp: Any, state: Any) -> Any:
        """Return the state itself."""
        return state

    def picture(self, state: Sequence[float]) -> npt.NDArray[np.uint8]:
        """Render the track to its limits, the cart, and the pole."""
        position, angle, end, long = state[0], state[2], self.position_limit, self.pole_length
        top = position + long * math.sin(angle), long * math.cos(angle)
        lines = (
            Line((-end, 0.0), (end, 0.0), 0.01, GRAY),
            Line((position - 0.15, 0.0), (position + 0.15, 0.0), 0.1, BLUE),
            Line((position, 0.0), top, 0.04, RED),
        )
        return lines_as_picture(lines, width=2.2 * end, middle=0.5 * long)


@dataclass(frozen=True, kw_only=True)
class CartPole(CartPolePhysics):
    """Push with full force to the left (action 0) or right (action 1)."""

    name = "rltrain/CartPole-v1"
    action = "discrete"
    num_actions = 2

    def push(self, xp: Any, state: Any, action: Any) -> Any:
        """Return plus or minus the full force."""
        force = xp.full_like(state[:, 0], self.force)
        return xp.where(action == 1, force, -force)


@dataclass(frozen=True, kw_only=True)
class CartPoleContinuous(CartPolePhysics):
    """Push with a fraction of the full force: -1 is full force left, 1 full force right."""

    name = "rltrain/CartPoleContinuous-v1"
    action = "continuous"
    num_actions = 1

    def push(self, xp: Any, state: Any, action: Any) -> Any:
        """Return the full force times the action, clipped to [-1, 1]."""
        return self.force * xp.clip(action[:, 0], -self.action_bound, self.action_bound)


@dataclass(frozen=True, kw_only=True)
class Pendulum(BatchedTask):
    """A rod on a motor that is too weak to lift it without swinging.

    State: angle from upright (rad, not wrapped) and angular velocity (rad/s). Observation: cosine
    and sine of the angle, angular velocity. Action: torque in N m. The reward is
    -(angle^2 + 0.1 velocity^2 + 0.001 torque^2) of the state before the step, the angle wrapped to
    [-pi, pi). Episodes never terminate; they end at the time limit.

    Equations, constants and the semi-implicit Euler integration are those of Gymnasium's
    Pendulum-v1 (`gymnasium.envs.classic_control.pendulum`).
    """

    name = "rltrain/Pendulum-v1"
    action = "continuous"
    num_actions = 1
    num_envs: ClassVar[int] = 256

    gravity: float = 10.0
    """In m/s^2."""
    mass: float = 1.0
    """In kg."""
    length: float = 1.0
    """In m."""
    max_torque: float = 2.0
    """In N m."""
    max_speed: float = 8.0
    """In rad/s."""
    time_step: float = 0.05
    max_episode_length: int = 200

    @property
    def action_bound(self) -> float:
        """The largest torque, in N m."""
        return self.max_torque

    @property
    def observation_bound(self) -> tuple[float, ...]:
        """The bounds of cosine, sine and angular velocity."""
        return 1.0, 1.0, self.max_speed

    @property
    def initial_bound(self) -> tuple[float, ...]:
        """Any angle, at low speed."""
        return math.pi, 1.0

    def step(self, xp: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
        """Advance by one step; see the base class."""
        angle, speed = state[:, 0], state[:, 1]
        torque = xp.clip(action[:, 0], -self.max_torque, self.max_torque)
        wrapped = (angle + math.pi) % (2 * math.pi) - math.pi
        cost = wrapped * wrapped + 0.1 * (speed * speed) + 0.001 * (torque * torque)
        acceleration = (
            3 * self.gravity / (2 * self.length) * xp.sin(angle)
            + 3.0 / (self.mass * self.length**2) * torque
        )
        speed = xp.clip(speed + acceleration * self.time_step, -self.max_speed, self.max_speed)
        state = xp.stack((angle + speed * self.time_step, speed), -1)
        return state, -cost, xp.zeros_like(speed, dtype=bool)

    def observe(self, xp: Any, state: Any) -> Any:
        """Return the cosine and sine of the angle, and the angular velocity."""
        return xp.stack((xp.cos(state[:, 0]), xp.sin(state[:, 0]), state[:, 1]), -1)

    def picture(self, state: Sequence[float]) -> npt.NDArray[np.uint8]:
        """Render the rod and its axis; it turns in the same direction as Gymnasium's."""
        long, angle = self.length, state[0]
        end = -long * math.sin(angle), long * math.cos(angle)
        lines = (
            Line((0.0, 0.0), end, 0.1 * long, RED),
            Line((0.0, 0.0), (0.0, 0.0), 0.04 * long, GRAY),
        )
        return lines_as_picture(lines, width=3.6 * long, middle=0.0)
