"""Wraps a batch of Playground's environments as a vector environment."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import mujoco
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


class PlaygroundEnv(VectorEnv[Any, Any, Any]):
    """Steps all environments together, in one program that is compiled at the first step.

    - A step neither synchronizes with the device nor copies data to or from it.
    - Autoreset is SAME_STEP: a finished environment starts a new, randomly sampled episode in the
      same program. Every step returns `info["final_obs"]` and its mask `info["_final_obs"]`; the
      rows of unfinished environments hold their current observations.
    - Actions are clipped to [-1, 1]. With `env.action_repeat`, a step applies each action that many
      times and sums the rewards, even if the episode terminates in between.
    - The observation groups `policy` and `critic` are Playground's `state` and `privileged_state`.
    - Playground's metrics (mostly the terms of the reward) are in `info["log"]`, averaged over the
      environments.
    - If a simulation diverges, its episode terminates; values of its reward and final observation
      that are not finite are replaced with zeros.

    Attributes:
        device: the device of the arrays.
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
            task: "Name", or "module:Name".
            num_envs: the number of environments.
            config: Playground's configuration of the task.
            device: the device of the arrays, such as "cuda:1".
        """
        self.num_envs = num_envs
        self.device = device
        self._device = local_device(device)
        made = _compiled(task, num_envs, config.to_json(), self._device)
        self._env, self._begin, self._step, self._one = made
        self.max_episode_length = episode_steps(config)
        self.step_dt = float(self._env.dt) * int(config.get("action_repeat", 1))
        self._batch: Batch | None = None
        self._scene: mujoco.MjData | None = None
        self._seed(None)
        _, observations = jax.eval_shape(self._begin, self._key)
        self.single_observation_space = _space(task, observations)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = Box(-1.0, 1.0, (self._env.action_size,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment.

        Args:
            seed: seeds the episodes. None continues the current random sequence.
            options: not used.

        Returns:
            Observations of shape (num_envs, components), by group if there are several, and an
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
        """
        self._batch, result = self._step(self._current(), self._on_device(actions, np.float32))
        observations, rewards, terminations, truncations, info = result
        return observations, rewards, terminations, truncations, info

    def render(self) -> tuple[Any, ...]:
        """Return Playground's rendering of the first environment, uint8 (height, width, 3)."""
        state = jax.device_get(self._one(self._current().state, 0))
        return (self._env.render(state, height=480, width=640),)

    def mujoco_scene(self, index: int) -> tuple[Any, Any]:
        """Return an environment's model and its state, for a viewer: a `MjData` of this method."""
        model, state = self._env.mj_model, jax.device_get(self._one(self._current().state, index))
        if self._scene is None:
            self._scene = mujoco.MjData(model)
        for name in ("qpos", "qvel", "mocap_pos", "mocap_quat"):
            getattr(self._scene, name)[:] = getattr(state.data, name)
        mujoco.mj_forward(model, self._scene)
        return model, self._scene

    @property
    def episode_length_buf(self) -> Any:
        """Steps since each environment's last reset, integers of shape (num_envs,)."""
        return self._current().lengths

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: Any) -> None:
        lengths = self._on_device(lengths, np.int32).reshape(self.num_envs).astype(np.int32)
        self._batch = self._current()._replace(lengths=lengths)

    def get_state(self) -> list[Any]:
        """Return everything that the next steps depend on, as a list of arrays."""
        return list(jax.tree.leaves(self._current()))

    def set_state(self, state: list[Any]) -> None:
        """Restore what `get_state` of an equal environment returned: steps match bit for bit."""
        like, form = jax.tree.flatten(jax.eval_shape(self._begin, self._key)[0])
        given = [(tuple(x.shape), str(x.dtype)) for x in state]
        wanted = [(tuple(x.shape), str(x.dtype)) for x in like]
        if given != wanted:
            raise ValueError(
                f"the state belongs to another task, or not to {self.num_envs} environments: its "
                f"arrays are {given}; they must be {wanted}"
            )
        self._batch = jax.tree.unflatten(form, jax.device_put(state, self._device))

    def _seed(self, seed: int | None) -> None:
        seed = secrets.randbits(31) if seed is None else seed
        self._key = jax.device_put(jax.random.PRNGKey(seed), self._device)

    def _on_device(self, values: Any, dtype: Any) -> Any:
        if not isinstance(values, jax.Array):
            # Copied: jax may share the caller's memory, which the caller may write to later.
            return jax.device_put(np.array(values, dtype), self._device)
        return values if values.device == self._device else jax.device_put(values, self._device)

    def _current(self) -> Batch:
        if self._batch is None:
            raise ResetNeeded("The environment was never reset: call reset() first.")
        return self._batch


@functools.cache
def _compiled(
    task: str, num_envs: int, config: str, device: jax.Device
) -> tuple[Any, Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return one environment, and the programs of a batch: `begin`, `step` and `one`.

    Cached, because compiling takes longer than a hundred thousand steps: equal batches share it.
    """
    settings = ConfigDict(json.loads(config))
    env = load(task, settings, device)
    programs = Programs(
        env, num_envs, episode_steps(settings), int(settings.get("action_repeat", 1))
    )
    return env, jax.jit(programs.begin), jax.jit(programs.step), jax.jit(programs.one)


def _space(task: str, observations: Any) -> Space[Any]:
    """Return the space of one environment's observations.

    Args:
        task: the task's name, for messages.
        observations: the shape (num_envs, components) of an array, or a mapping of them by group.
    """
    if isinstance(observations, Mapping):
        return Dict({name: _space(task, part) for name, part in observations.items()})
    shape = tuple(observations.shape[1:])
    if len(shape) != 1:
        raise UsageError(
            f"The task {task!r} has observations of shape {shape}; only vectors are supported. "
            "Choose a task whose observations are vectors."
        )
    return Box(-np.inf, np.inf, shape, np.float32)
