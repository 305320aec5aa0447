"""A pool of EnvPool's environments as a vector environment with the session's arrays."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain_envpool.spaces import Actions, Observations
from rltrain_envpool.tasks import configured, make_pool, steps_limit
from rltrain_gymnasium.arrays import Arrays

__all__ = ["EnvPoolEnv"]


class EnvPoolEnv(VectorEnv[Any, Any, Any]):
    """Steps all environments at once, in threads of C++, and converts what goes in and comes out.

    - Observations become float32 vectors, see `rltrain_envpool.spaces`.
    - Actions for a Box are clipped to its bounds.
    - Autoreset is SAME_STEP: EnvPool itself would reset the environments that have finished in the
      next step; here they are reset at once, they alone, by one more call. `info["final_obs"]` and
      its mask `info["_final_obs"]` are there in every step; the rows of environments that have not
      finished hold their observations.
    - Steps are counted here, so that lengths can be set, and so that an episode which terminates in
      its very last step counts as terminated: EnvPool tells only that it was the last one.
    - EnvPool's parts of the reward are in `info["log"]`, as means over the environments, and what
      it says of success in `info["success"]`.

    Attributes:
        device: where the arrays are.
        max_episode_length: in steps, or None if episodes are not cut off.
        num_threads: how many threads step the environments.
        step_dt: time between two steps, in s; only of tasks whose configuration tells it.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": [],
    }

    def __init__(
        self, task: str, num_envs: int, options: Mapping[str, Any], threads: int, arrays: Arrays
    ) -> None:
        """Prepare the environments; they are made by the first reset, which brings their seeds.

        Args:
            task: a name with the prefix "envpool/".
            num_envs: how many environments.
            options: of EnvPool's configuration of the task.
            threads: how many step the environments, where the options do not say.
            arrays: makes the arrays on the session's device.

        Raises:
            UsageError: the task has no such option, or cannot be learned.
        """
        spec = configured(task, options)
        self._task, self._options, self._arrays = task, dict(options), arrays
        self.num_envs = num_envs
        self.num_threads = int(spec.config.num_threads) or threads
        self.device = arrays.device
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
        """Begin an episode in every environment.

        Args:
            seed: makes the environments anew, each with a seed of its own that is drawn from this
                one: EnvPool's seeds are given when environments are made. None goes on.
            options: not used.

        Returns:
            Observations of shape (num_envs, components), group by group if there are several, and
            an empty info.
        """
        super().reset(seed=seed)
        if seed is not None or self._pool is None:
            self._make(secrets.randbits(31) if seed is None else seed)
        self._lengths = np.zeros(self.num_envs, np.int64)
        observed, _ = self._pool.reset()
        return self._told(self._observations.encode(observed, self.num_envs)), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished.

        Args:
            actions: shape (num_envs, components), or (num_envs,) for Discrete.

        Returns:
            Observations, as from `reset`; rewards, float32 of shape (num_envs,); terminations and
            truncations, bool of shape (num_envs,); info.

        Raises:
            ResetNeeded: the environment was never reset.
        """
        pool = self._current()
        decoded = self._actions.decode(self._arrays.to_numpy(actions))
        observed, rewards, terminations, cut_off, about = pool.step(decoded)
        self._lengths = self._lengths + 1
        if self.max_episode_length is not None:
            cut_off = cut_off | (self._lengths >= self.max_episode_length)
        truncations = cut_off & ~terminations
        done = terminations | truncations
        final = self._observations.encode(observed, self.num_envs)
        observations = self._begun(pool, done, final)
        info = {
            "final_obs": self._told(final),
            "_final_obs": self._arrays.asarray(done, "bool"),
            **self._about(about),
        }
        return (
            self._told(observations),
            self._arrays.asarray(rewards, "float"),
            self._arrays.asarray(terminations, "bool"),
            self._arrays.asarray(truncations, "bool"),
            info,
        )

    @property
    def episode_length_buf(self) -> Any:
        """Steps since each environment's last reset, integers of shape (num_envs,)."""
        self._current()
        return self._arrays.asarray(self._lengths.copy(), "int")

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: Any) -> None:
        self._current()
        self._lengths = self._arrays.to_numpy(lengths).reshape(self.num_envs).astype(np.int64)

    def close_extras(self, **kwargs: Any) -> None:
        """Let the pool go, whose threads end with it: EnvPool's own `close` leaves them running."""
        self._pool = None

    def _make(self, seed: int) -> None:
        self._pool = None  # Its threads end before others begin.
        settings = {**self._options, "num_threads": self.num_threads}
        if self.max_episode_length is not None:
            settings["max_episode_steps"] = self.max_episode_length + 1
        seeds = np.random.SeedSequence(seed).generate_state(self.num_envs) % 2**31
        self._pool = make_pool(self._task, num_envs=self.num_envs, seed=seeds.tolist(), **settings)

    def _begun(self, pool: Any, done: Any, final: Mapping[str, Any]) -> dict[str, Any]:
        """Return the observations with which everybody goes on."""
        observations = {group: rows.copy() for group, rows in final.items()}
        finished = np.flatnonzero(done).astype(np.int32)
        if len(finished):
            observed, _ = pool.reset(finished)
            for group, rows in self._observations.encode(observed, len(finished)).items():
                observations[group][finished] = rows
            self._lengths[finished] = 0
        return observations

    def _about(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Return what else EnvPool says of a step."""
        said: dict[str, Any] = {}
        log = {name: float(x.mean()) for name, x in about.items() if name.startswith("reward")}
        if log:
            said["log"] = log
        success = about.get("is_success", about.get("success"))
        if success is not None:
            said["success"] = self._arrays.asarray(success.reshape(-1) > 0, "bool")
        return said

    def _told(self, groups: Mapping[str, Any]) -> Any:
        arrays = {group: self._arrays.asarray(rows, "float") for group, rows in groups.items()}
        return arrays["policy"] if len(arrays) == 1 else arrays

    def _current(self) -> Any:
        if self._pool is None:
            raise ResetNeeded("Call reset() before anything else.")
        return self._pool
