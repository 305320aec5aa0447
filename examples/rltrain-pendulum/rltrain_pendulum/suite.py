"""The suite: pendulums in numpy, as arrays of the run's framework on the rank's device."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain import hookimpl
from rltrain.session import Session
from rltrain_pendulum.plugin import with_defaults

__all__ = ["PendulumEnv", "PendulumSuite"]

Array = np.ndarray[Any, Any]

STEP, GRAVITY, FASTEST = 0.05, 10.0, 8.0
"""Seconds of a step; m/s²; radians per second."""


class PendulumSuite:
    """Makes the environments of a rank."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> VectorEnv[Any, Any, Any]:
        """Make this rank's environments. The session resets them with this rank's seed.

        Raises:
            UsageError: an `env.` option is wrong.
        """
        return PendulumEnv(session, **with_defaults(session.config.env))


class PendulumEnv(VectorEnv[Any, Any, Any]):
    """Gymnasium's Pendulum, all environments at once.

    What a run needs to go on bit for bit is in `get_state` and `set_state`.
    """

    def __init__(self, session: Session, max_episode_length: int, torque: float) -> None:
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self._session, self.num_envs = session, session.config.num_envs
        high = np.array([1.0, 1.0, FASTEST], np.float32)
        self.single_observation_space = Box(-high, high)
        self.single_action_space = Box(-1.0, 1.0, (1,))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.max_episode_length = int(max_episode_length)
        self._torque = torque
        self._generator = np.random.default_rng()
        self._angles, self._speeds = np.zeros(self.num_envs), np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every environment. None continues the random numbers."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._begin(np.ones(self.num_envs, bool))
        return self._session.from_host(self._observed()), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those whose episode has ended."""
        push = self._torque * np.clip(self._session.to_host(actions)[:, 0], -1.0, 1.0)
        upright = (self._angles + np.pi) % (2 * np.pi) - np.pi
        rewards = -(upright**2 + 0.1 * self._speeds**2 + 0.001 * push**2)
        self._speeds += (1.5 * GRAVITY * np.sin(self._angles) + 3.0 * push) * STEP
        self._speeds = np.clip(self._speeds, -FASTEST, FASTEST)
        self._angles += self._speeds * STEP
        self._lengths += 1
        ends = self._lengths >= self.max_episode_length
        reached = self._observed()
        self._begin(ends)
        # Rewards are float32; nothing terminates an episode.
        given = self._observed(), rewards.astype(np.float32), np.zeros_like(ends), ends, reached
        observations, rewards, terminations, truncations, final = map(
            self._session.from_host, given
        )
        info = {"final_obs": final, "_final_obs": truncations}
        return observations, rewards, terminations, truncations, info

    def get_state(self) -> dict[str, Any]:
        """Return all that the next step depends on."""
        arrays = {"angles": self._angles, "speeds": self._speeds, "lengths": self._lengths}
        copies = {name: array.copy() for name, array in arrays.items()}
        return {**copies, "generator": self._generator.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self._angles, self._speeds = state["angles"].copy(), state["speeds"].copy()
        self._lengths = state["lengths"].copy()
        self._generator.bit_generator.state = state["generator"]

    def _begin(self, which: Array) -> None:
        self._angles[which] = self._generator.uniform(-np.pi, np.pi, which.sum())
        self._speeds[which] = self._generator.uniform(-1.0, 1.0, which.sum())
        self._lengths[which] = 0

    def _observed(self) -> Array:
        columns = [np.cos(self._angles), np.sin(self._angles), self._speeds]
        return np.stack(columns, 1).astype(np.float32)
