"""Wraps a pool of EnvPool's environments in a vector environment with the session's arrays."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain.session import Session
from rltrain_envpool.spaces import Actions, Observations
from rltrain_envpool.tasks import configured, make_pool, steps_limit


class EnvPoolEnv(VectorEnv[Any, Any, Any]):
    """Steps all environments together in C++ threads, and converts actions and observations.

    - Observations become float32 vectors, see `rltrain_envpool.spaces`.
    - Actions for a Box are clipped to its bounds.
    - Autoreset is SAME_STEP. EnvPool (1.2) resets finished environments only in the next step; here
      an extra call resets exactly those at once. Every step returns `info["final_obs"]` and its
      mask `info["_final_obs"]`; the rows of unfinished environments hold their current
      observations.
    - Steps are counted here, so that lengths can be set, and so that an episode that terminates in
      the step of its time limit counts as terminated: EnvPool (1.2) would report a truncation.
    - EnvPool's reward terms are in `info["log"]`, averaged over the environments, and its success
      flags in `info["success"]`.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": [],
    }

    def __init__(
        self, task: str, num_envs: int, options: Mapping[str, Any], threads: int, session: Session
    ) -> None:
        """Prepare the environments; the first reset makes them, because it provides their seeds.

        `options` are values in EnvPool's configuration of the task, which may set `threads` too.
        """
        spec = configured(task, options)
        self._task, self._options, self._session = task, dict(options), session
        self.num_envs = num_envs
        self.num_threads = int(spec.config.num_threads) or threads
        self.device = session.world.device
        self.max_episode_length = steps_limit(spec)
        if hasattr(spec.config, "ctrl_dt"):
            self.step_dt = float(spec.config.ctrl_dt)
        self._observations = Observations(task, spec)
        self._actions = Actions(task, spec)
        self._pool: Any = None
        self._lengths: npt.NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self.single_observation_space = self._observations.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = self._actions.space
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment.

        A seed recreates the environments, each with its own seed derived from this one, because
        EnvPool takes seeds only when it makes environments. None keeps their random sequences.
        """
        super().reset(seed=seed)
        if seed is not None or self._pool is None:
            self._make(secrets.randbits(31) if seed is None else seed)
        self._lengths = np.zeros(self.num_envs, np.int64)
        observed, _ = self._pool.reset()
        return self._converted(self._observations.encode(observed, self.num_envs)), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished."""
        pool = self._current()
        decoded = self._actions.decode(self._session.to_host(actions))
        observed, rewards, terminations, cut_off, step_info = pool.step(decoded)
        self._lengths = self._lengths + 1
        if self.max_episode_length is not None:
            cut_off = cut_off | (self._lengths >= self.max_episode_length)
        truncations = cut_off & ~terminations
        done = terminations | truncations
        final = self._observations.encode(observed, self.num_envs)
        observations = self._reset_finished(pool, done, final)
        info = {
            "final_obs": self._converted(final),
            "_final_obs": self._session.from_host(done),
            **self._log_and_success(step_info),
        }
        return (
            self._converted(observations),
            self._session.from_host(rewards.astype(np.float32)),
            self._session.from_host(terminations),
            self._session.from_host(truncations),
            info,
        )

    @property
    def episode_length_buf(self) -> Any:
        """Steps since each environment's last reset, integers of shape (num_envs,)."""
        self._current()
        return self._session.from_host(self._lengths)

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: Any) -> None:
        self._current()
        self._lengths = self._session.to_host(lengths).reshape(self.num_envs).astype(np.int64)

    def close_extras(self, **kwargs: Any) -> None:
        """Drop the pool, which ends its threads; EnvPool's `close` (1.2) leaves them running."""
        self._pool = None

    def _make(self, seed: int) -> None:
        self._pool = None  # Ends the old pool's threads before new ones start.
        settings = {**self._options, "num_threads": self.num_threads}
        if self.max_episode_length is not None:
            settings["max_episode_steps"] = self.max_episode_length + 1
        seeds = np.random.SeedSequence(seed).generate_state(self.num_envs) % 2**31
        self._pool = make_pool(self._task, num_envs=self.num_envs, seed=seeds.tolist(), **settings)

    def _reset_finished(self, pool: Any, done: Any, final: Mapping[str, Any]) -> dict[str, Any]:
        """Reset the finished environments; return the observations from which all continue."""
        finished = np.flatnonzero(done).astype(np.int32)
        if not len(finished):
            return dict(final)
        observations = {group: rows.copy() for group, rows in final.items()}
        observed, _ = pool.reset(finished)
        for group, rows in self._observations.encode(observed, len(finished)).items():
            observations[group][finished] = rows
        self._lengths[finished] = 0
        return observations

    def _log_and_success(self, step_info: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reward terms and the success of a step, from EnvPool's info."""
        found: dict[str, Any] = {}
        log = {name: float(x.mean()) for name, x in step_info.items() if name.startswith("reward")}
        if log:
            found["log"] = log
        success = step_info.get("is_success", step_info.get("success"))
        if success is not None:
            found["success"] = self._session.from_host(success.reshape(-1) > 0)
        return found

    def _converted(self, groups: Mapping[str, Any]) -> Any:
        arrays = {group: self._session.from_host(rows) for group, rows in groups.items()}
        return arrays["policy"] if len(arrays) == 1 else arrays

    def _current(self) -> Any:
        if self._pool is None:
            raise ResetNeeded("The environment was never reset: call reset() first.")
        return self._pool
