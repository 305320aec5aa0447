"""Many environments of an embedded task, stepped together on one device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain_gymnasium.arrays import Kind, Uniform, make_arrays
from rltrain_gymnasium.tasks import make_task
from rltrain_gymnasium.tasks.base import BatchedTask


class BatchedEnv(VectorEnv[Any, Any, Any]):
    """A vector environment without a loop over its environments.

    A step is a fixed, short sequence of array operations and never synchronizes with the device;
    for jax it is one program, compiled at the first step. Arrays kept between steps are replaced,
    never written in place, so that steps inside and outside `torch.inference_mode()` can be mixed.

    Autoreset is SAME_STEP: a finished environment is reset at once, and its last observation is in
    `info["final_obs"]`, a dense batch with the mask `info["_final_obs"]`; the rows of unfinished
    environments hold their current observations. Every step returns both, so that nothing has to
    read from the device whether an environment has finished. An episode that terminates in the
    step of its time limit counts as terminated, not as truncated.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
    }
    render_mode = "rgb_array"

    def __init__(
        self, task: BatchedTask, num_envs: int, framework: str = "numpy", device: str = "cpu"
    ) -> None:
        """Make the environments, with arrays of "numpy", "torch" or "jax" on a device."""
        self.task = task
        self.num_envs = num_envs
        self.device = device
        self.max_episode_length = task.max_episode_length
        self.step_dt = task.time_step  # In s.
        self._arrays = make_arrays(framework, device)
        self._action_kind: Kind = "int" if task.action == "discrete" else "float"
        self._bound = self._arrays.asarray(task.initial_bound, "float")
        self._coordinates = tuple(
            self._arrays.asarray(axis, "float") for axis in task.pixel_coordinates
        )
        fixed = self._arrays.xp, task, num_envs
        self._reset_all = self._arrays.compiled(_reset_all, *fixed)
        self._step_all = self._arrays.compiled(_step_all, *fixed)
        self._state: Any = None
        self._lengths: Any = None
        self.single_observation_space = _observation_space(task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space: Space[Any] = (
            Discrete(task.num_actions)
            if task.action == "discrete"
            else _box((task.action_bound,) * task.num_actions)
        )
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment. `seed=None` continues the random sequence."""
        super().reset(seed=seed)
        if seed is not None:
            self._arrays.seed(seed)
        self._state, observations = self._reset_all(self._bound, self._coordinates)
        self._lengths = self._arrays.asarray(np.zeros(self.num_envs), "int")
        return observations, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished.

        Actions of shape (num_envs, components) are clipped to their bounds; discrete ones are
        integers of shape (num_envs,) or (num_envs, 1). Observations are float32 of shape (num_envs,
        components), or a dictionary by group if the task has images.
        """
        self._check_reset()
        actions = self._arrays.asarray(actions, self._action_kind)
        (self._state, self._lengths), result = self._step_all(
            self._bound, self._coordinates, self._state, self._lengths, actions
        )
        stepped: tuple[Any, Any, Any, Any, dict[str, Any]] = result
        return stepped

    def render(self) -> tuple[Any, ...]:
        """Return a picture of the first environment, uint8 of shape (height, width, 3)."""
        self._check_reset()
        return (self.task.picture(self._arrays.to_numpy(self._state)[0].tolist()),)

    @property
    def episode_length_buf(self) -> Any:
        """Steps since each environment's last reset, integers of shape (num_envs,)."""
        self._check_reset()
        return self._lengths

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: Any) -> None:
        self._check_reset()
        lengths = self._arrays.asarray(lengths, "int").reshape(self.num_envs)
        self._lengths = self._arrays.copy(lengths)

    def get_state(self) -> dict[str, Any]:
        """Return a copy of everything that the next steps depend on."""
        self._check_reset()
        return {
            "state": self._arrays.copy(self._state),
            "episode_length": self._arrays.copy(self._lengths),
            "generator": self._arrays.get_generator_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` of an equal environment returned: steps match bit for bit."""
        physical = self._arrays.asarray(state["state"], "float")
        shape = (self.num_envs, len(self.task.initial_bound))
        if tuple(physical.shape) != shape:
            raise ValueError(
                f"the state has shape {tuple(physical.shape)}; it must be {shape}: "
                "use a state of the same task and number of environments"
            )
        self._state = self._arrays.copy(physical)
        self._lengths = self._arrays.copy(self._arrays.asarray(state["episode_length"], "int"))
        self._arrays.set_generator_state(state["generator"])

    def _check_reset(self) -> None:
        if self._state is None:
            raise ResetNeeded("The environment was never reset: call reset() first.")


def _reset_all(
    uniform: Uniform,
    xp: Any,
    task: BatchedTask,
    num_envs: int,
    bound: Any,
    coordinates: tuple[Any, ...],
) -> Any:
    """Return initial states and their observations."""
    state = _initial_state(uniform, task, num_envs, bound)
    return state, _observations(xp, task, state, coordinates, kept=True)


def _step_all(
    uniform: Uniform,
    xp: Any,
    task: BatchedTask,
    num_envs: int,
    bound: Any,
    coordinates: tuple[Any, ...],
    state: Any,
    lengths: Any,
    actions: Any,
) -> tuple[tuple[Any, Any], tuple[Any, Any, Any, Any, dict[str, Any]]]:
    """Return the new states and lengths, and the result of `BatchedEnv.step`."""
    shape = (num_envs,) if task.action == "discrete" else (num_envs, task.num_actions)
    state, rewards, terminations = task.step(xp, state, actions.reshape(shape))
    lengths = lengths + 1
    truncations = (lengths >= task.max_episode_length) & ~terminations
    done = terminations | truncations
    info = {"final_obs": _observations(xp, task, state, coordinates), "_final_obs": done}
    state = xp.where(done[:, None], _initial_state(uniform, task, num_envs, bound), state)
    observations = _observations(xp, task, state, coordinates, kept=True)
    return (state, lengths * ~done), (observations, rewards, terminations, truncations, info)


def _observations(
    xp: Any, task: BatchedTask, state: Any, coordinates: tuple[Any, ...], kept: bool = False
) -> Any:
    """Return the observations of a state: an array, or a dictionary by group if it has images.

    Of a state that is kept for the next step they are a copy, because the caller may write to them.
    """
    vector = task.observe(xp, state)
    if kept and vector is state:
        vector = state * 1.0
    images = task.render(xp, state, coordinates)
    return {task.vector_group: vector, **images} if images else vector


def _initial_state(uniform: Uniform, task: BatchedTask, num_envs: int, bound: Any) -> Any:
    """Sample a state for every environment: cheaper than selecting those that need one."""
    state = uniform(num_envs, len(task.initial_bound))
    state *= 2.0
    state -= 1.0
    state *= bound
    return state


def make_batched(
    num_envs: int, task: str, framework: str = "numpy", device: str = "cpu", **options: Any
) -> BatchedEnv:
    """Make an embedded task's environments, by its name; `gymnasium.make_vec` calls this.

    `options` are parameters of the task, such as `pole_length=2.0`.
    """
    return BatchedEnv(make_task(task, options), num_envs, framework, device)


def _observation_space(task: BatchedTask) -> Space[Any]:
    vector = _box(task.observation_bound)
    images = {name: Box(0, 255, shape, np.uint8) for name, shape in task.image_shapes.items()}
    return Dict({task.vector_group: vector, **images}) if images else vector


def _box(bound: tuple[float, ...]) -> Box:
    high = np.array(bound, dtype=np.float32)
    return Box(-high, high, dtype=np.float32)
