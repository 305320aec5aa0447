"""The torque-limited pendulum: swing it up and hold it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rltrain_gymnasium.tasks.base import BatchedTask
from rltrain_gymnasium.tasks.drawing import GRAY, RED, Line, picture

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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
        """Draw the rod and its axis; it turns in the same direction as Gymnasium's."""
        long, angle = self.length, state[0]
        end = -long * math.sin(angle), long * math.cos(angle)
        lines = (
            Line((0.0, 0.0), end, 0.1 * long, RED),
            Line((0.0, 0.0), (0.0, 0.0), 0.04 * long, GRAY),
        )
        return picture(lines, width=3.6 * long, middle=0.0)
