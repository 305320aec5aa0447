"""A batch of Playground's environments as a vector environment."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from ml_collections import ConfigDict

from rltrain.errors import UsageError
from rltrain_jax.devices import local_device
from rltrain_playground.config import episode_steps
from rltrain_playground.model import load
from rltrain_playground.programs import Batch, Programs

__all__ = ["PlaygroundEnv"]


class PlaygroundEnv(VectorEnv[Any, Any, Any]):
    """Steps all environments at once, in a program that is compiled at the first step.

    - Nothing in a step waits for the device, or is sent to it or fetched from it.
    - Autoreset is SAME_STEP: an environment that has finished begins a fresh episode, drawn anew,
      in the same program. `info["final_obs"]` and its mask `info["_final_obs"]` are there in every
      step; the rows of environments that have not finished hold their observations.
    - Actions are clipped to [-1, 1]. With `env.action_repeat` each is taken so many times in a
      step, and the rewards are added up, also when an episode terminates on the way.
    - Groups of observations are called `policy` and `critic` where Playground says `state` and
      `privileged_state`.
    - What Playground tells of each step (its metrics, mostly the parts of the reward) is in
      `info["log"]`, as means over the environments.
    - Where a simulation came apart, so that its episode was terminated, the reward and the final
      observation are zeros in place of what is not finite.

    Attributes:
        device: where the arrays are.
        max_episode_length: in steps.
        step_dt: time between two steps, in s.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
    }
    render_mode = "rgb_array"

    def __init__(self, task: str, num_envs: int, config: Any, device: str = "cpu") -> None:
        """Make the environments.

        Args:
            task: its name, perhaps behind that of a module, "module:Name".
            num_envs: how many environments.
            config: Playground's configuration of the task.
            device: where the arrays are, such as "cuda:1".

        Raises:
            UsageError: the observations are images.
        """
        self.num_envs = num_envs
        self.device = device
        self._device = local_device(device)
        made = _compiled(task, num_envs, config.to_json(), self._device)
        self._env, self._begin, self._step, self._first = made
        self.max_episode_length = episode_steps(config)
        self.step_dt = float(self._env.dt) * int(config.get("action_repeat", 1))
        self._batch: Batch | None = None
        self._seed(None)
        _, told = jax.eval_shape(self._begin, self._key)
        self.single_observation_space = _space(task, told)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = Box(-1.0, 1.0, (self._env.action_size,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every environment.

        Args:
            seed: begins the sequence of episodes anew. None goes on with it.
            options: not used.

        Returns:
            Observations of shape (num_envs, components), group by group if there are any, and an
            empty info.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._seed(seed)
        elif self._batch is not None:
            self._key = self._batch.key
        self._batch, observations = self._begin(self._key)
        return observations, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished.

        Args:
            actions: shape (num_envs, components).

        Returns:
            Observations, as from `reset`; rewards, float32 of shape (num_envs,); terminations and
            truncations, bool of shape (num_envs,); info.

        Raises:
            ResetNeeded: the environment was never reset.
        """
        self._batch, result = self._step(self._current(), self._on_device(actions, np.float32))
        observations, rewards, terminations, truncations, info = result
        return observations, rewards, terminations, truncations, info

    def render(self) -> tuple[Any, ...]:
        """Return Playground's picture of the first environment, uint8 (height, width, 3)."""
        state = jax.device_get(self._first(self._current().state))
        return (self._env.render(state, height=480, width=640),)

    @property
    def episode_length_buf(self) -> Any:
        """Steps since each environment's last reset, integers of shape (num_envs,)."""
        return self._current().lengths

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: Any) -> None:
        lengths = self._on_device(lengths, np.int32).reshape(self.num_envs).astype(np.int32)
        self._batch = self._current()._replace(lengths=lengths)

    def get_state(self) -> list[Any]:
        """Return all that the next steps depend on, as a list of arrays.

        Raises:
            ResetNeeded: the environment was never reset.
        """
        return list(jax.tree.leaves(self._current()))

    def set_state(self, state: list[Any]) -> None:
        """Go on, bit for bit, from what `get_state` of an environment like this one returned.

        Raises:
            ValueError: the state is of another task or another number of environments.
        """
        like, form = jax.tree.flatten(jax.eval_shape(self._begin, self._key)[0])
        given = [(tuple(x.shape), str(x.dtype)) for x in state]
        wanted = [(tuple(x.shape), str(x.dtype)) for x in like]
        if given != wanted:
            raise ValueError(
                f"the state is of another task, or not of {self.num_envs} environments: its arrays "
                f"are {given}; they must be {wanted}"
            )
        self._batch = jax.tree.unflatten(form, jax.device_put(state, self._device))

    def _seed(self, seed: int | None) -> None:
        seed = secrets.randbits(31) if seed is None else seed
        self._key = jax.device_put(jax.random.PRNGKey(seed), self._device)

    def _on_device(self, values: Any, dtype: Any) -> Any:
        if not isinstance(values, jax.Array):
            # Jax may keep the memory of what it is given, which the caller may write to later.
            return jax.device_put(np.array(values, dtype), self._device)
        return values if values.device == self._device else jax.device_put(values, self._device)

    def _current(self) -> Batch:
        if self._batch is None:
            raise ResetNeeded("Call reset() before anything else.")
        return self._batch


@functools.cache
def _compiled(
    task: str, num_envs: int, config: str, device: jax.Device
) -> tuple[Any, Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return one environment, and the programs of a batch: how it begins, a step, the first row.

    Compiling takes longer than a hundred thousand steps: batches that are alike share it.
    """
    settings = ConfigDict(json.loads(config))
    env = load(task, settings, device)
    programs = Programs(
        env, num_envs, episode_steps(settings), int(settings.get("action_repeat", 1))
    )
    return env, jax.jit(programs.begin), jax.jit(programs.step), jax.jit(programs.first)


def _space(task: str, told: Any) -> Space[Any]:
    """Return the space of one environment's observations.

    Args:
        task: its name, for messages.
        told: arrays of shape (num_envs, components), or what stands for them; by group.

    Raises:
        UsageError: they are no vectors.
    """
    if isinstance(told, Mapping):
        return Dict({name: _space(task, part) for name, part in told.items()})
    if len(told.shape) != 2:
        raise UsageError(
            f"The task {task!r} has observations of shape {tuple(told.shape[1:])}; only vectors "
            "can be learned."
        )
    return Box(-np.inf, np.inf, told.shape[1:], np.float32)
