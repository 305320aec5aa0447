"""Wraps Gymnasium's environments in a vector environment that uses the session's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain.errors import UsageError, in_a_line
from rltrain_gymnasium.arrays import Arrays, Kind
from rltrain_gymnasium.observed import grouped, is_image
from rltrain_gymnasium.scenes import scene_of
from rltrain_gymnasium.single import action_kind, make_single
from rltrain_gymnasium.upstream import AnyInfoVectorEnv


class ConvertedVectorEnv(VectorEnv[Any, Any, Any]):
    """Steps environments one after another, and converts actions, observations and rewards.

    - Observations become float32 vectors, and uint8 or float32 images; several of them are a Dict
      of groups, see `rltrain_gymnasium.observed`.
    - Rewards become float32.
    - Actions for a Box are clipped to its bounds, as `gymnasium.wrappers.ClipAction` does, because
      a Gaussian policy exceeds them. Discrete actions count from 0, even if the environment's do
      not.
    - Autoreset is SAME_STEP. Every step returns `info["final_obs"]`, a dense batch, and its mask
      `info["_final_obs"]`; the rows of unfinished environments hold their current observations. An
      episode that terminates in the step of its time limit counts as terminated, not as truncated.
      The rest of the info is passed on unchanged, in numpy; what does not fit in one array of
      numbers is one of objects.

    Attributes:
        device: the device of the arrays.
        max_episode_length: in steps, or None if there is no time limit.
        mujoco_scene: see `rltrain_gymnasium.scenes`; None without MuJoCo.
    """

    def __init__(self, task: str, env: SyncVectorEnv, arrays: Arrays) -> None:
        """Wrap the environments.

        Args:
            task: the task's name, for messages.
            env: the environments, with SAME_STEP autoreset. Their observations are vectors, images
                or a Dict of these, and may be in the same memory at each step.
            arrays: makes the arrays on the session's device.
        """
        self._task = task
        self._env = env
        self._arrays = arrays
        self._space: Space[Any] = env.single_action_space
        self._kind = action_kind(task, self._space)
        self.spec = env.envs[0].spec
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self.num_envs = env.num_envs
        self.device = arrays.device
        self.max_episode_length = self.spec.max_episode_steps if self.spec else None
        self.mujoco_scene = scene_of(env.envs)
        self.single_observation_space = _converted_space(env.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.single_action_space = _from_zero(self._space)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment; environment i is seeded with `seed + i`.

        Returns:
            Observations of shape (num_envs, ...), by group if there are several, and info.
        """
        observations, info = self._called(self._env.reset, seed=seed, options=options)
        return self._converted(observations), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished.

        Args:
            actions: shape (num_envs, components), or (num_envs,) for Discrete.

        Returns:
            Observations of shape (num_envs, ...), by group if there are several: float32, or uint8
            for uint8 images; rewards, float32 of shape (num_envs,); terminations and truncations,
            bool of shape (num_envs,); info.
        """
        observations, rewards, terminations, truncations, info = self._called(
            self._env.step, self._actions(actions)
        )
        truncations = truncations & ~terminations
        done = terminations | truncations
        final, converted = info.get("final_obs"), self._converted(observations)
        info["final_obs"] = (
            converted if final is None else self._converted(_with_final(observations, done, final))
        )
        info["_final_obs"] = self._arrays.asarray(done, "bool")
        self._add_success(info)
        return (
            converted,
            self._arrays.asarray(rewards, "float"),
            self._arrays.asarray(terminations, "bool"),
            self._arrays.asarray(truncations, "bool"),
            info,
        )

    def render(self) -> tuple[Any, ...]:
        """Return a frame of the first environment, uint8 of shape (height, width, 3)."""
        return (self._env.envs[0].render(),)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments."""
        self._env.close(**kwargs)

    def _called(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the environments, whose errors do not say of which task they are."""
        try:
            return method(*args, **kwargs)
        except Exception as error:
            raised = f"{method.__name__}() raised {in_a_line(error, placed=True)}"
            raise RuntimeError(f"The task {self._task!r}: {raised}") from error

    def _converted(self, observations: Any) -> Any:
        """Return new arrays: Gymnasium writes the next observations where these are."""
        if isinstance(observations, Mapping):
            return {name: self._converted(group) for name, group in observations.items()}
        image = observations.ndim == 4
        kind: Kind = "byte" if image and observations.dtype == np.uint8 else "float"
        return self._arrays.new(observations, kind)

    def _add_success(self, info: dict[str, Any]) -> None:
        """Move the success of ended episodes to `info["success"]`, where the session counts it."""
        info.pop("success", None)  # After an autoreset this belongs to the new episode.
        last = info.get("final_info", {})
        success = last.get("is_success", last.get("success"))
        if success is not None:
            info["success"] = self._arrays.asarray(np.asarray(success, dtype=bool), "bool")

    def _actions(self, actions: Any) -> npt.NDArray[Any]:
        space: Any = self._space
        values = self._arrays.to_numpy(actions).reshape(self.num_envs, *space.shape)
        shifted: npt.NDArray[Any] = (
            values.clip(space.low, space.high)
            if self._kind == "continuous"
            else values + space.start
        )
        return shifted.astype(space.dtype)


def make_converted(
    task: str,
    num_envs: int,
    options: Mapping[str, Any],
    arrays: Arrays,
    renders: bool = False,
) -> ConvertedVectorEnv:
    """Make environments of a task that is registered with Gymnasium.

    Args:
        task: an id registered with Gymnasium.
        num_envs: the number of environments.
        options: keyword arguments of `gymnasium.make`.
        arrays: makes the arrays on the session's device.
        renders: whether the first environment can render.
    """
    create = partial(_make_grouped, task, dict(options))
    creators = [create] * num_envs
    if renders:
        creators[0] = partial(_make_rendering, task, dict(options))
    # Not copied, because they are converted to new arrays.
    env = AnyInfoVectorEnv(creators, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    return ConvertedVectorEnv(task, env, arrays)


def _make_grouped(task: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    return grouped(task, make_single(task, options))


def _make_rendering(task: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    env = _make_grouped(task, options)
    if env.render_mode == "rgb_array":  # Its observations are images that it renders.
        return env
    env.close()
    if "rgb_array" not in env.metadata.get("render_modes", ()):
        raise UsageError(
            f"--video, a viewer, or an observer that renders: the task {task!r} cannot render. "
            "Leave it out."
        )
    return _make_grouped(task, {**options, "render_mode": "rgb_array"})


def _with_final(observations: Any, done: npt.NDArray[Any], final: Any) -> Any:
    """Return a copy of the observations with final observations in the rows of ended episodes."""
    ended = np.flatnonzero(done)
    if isinstance(observations, Mapping):
        last = {name: group.copy() for name, group in observations.items()}
        for index in ended:
            for name, group in last.items():
                group[index] = final[index][name]
        return last
    last = observations.copy()
    for index in ended:
        last[index] = final[index]
    return last


def _converted_space(space: Space[Any]) -> Space[Any]:
    """Return the observation space after conversion."""
    if isinstance(space, Dict):
        return Dict({name: _converted_space(part) for name, part in space.spaces.items()})
    return space if is_image(space) and space.dtype == np.uint8 else _float32(space)


def _float32(space: Space[Any]) -> Box:
    assert isinstance(space, Box)
    # Some tasks have the largest float64 as a bound: it overflows to infinity, as intended.
    with np.errstate(over="ignore"):
        return Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)


def _from_zero(space: Space[Any]) -> Space[Any]:
    """Return the action space after conversion: discrete actions count from 0."""
    if isinstance(space, Discrete):
        return Discrete(int(space.n))
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec)
    return _float32(space)
