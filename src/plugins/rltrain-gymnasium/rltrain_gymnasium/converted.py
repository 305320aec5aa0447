"""Gymnasium's environments behind one vector environment with the session's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain.errors import UsageError
from rltrain_gymnasium.arrays import Arrays, Kind
from rltrain_gymnasium.observed import grouped, is_image
from rltrain_gymnasium.single import action_kind, make_single

__all__ = ["ConvertedVectorEnv", "make_converted"]


class ConvertedVectorEnv(VectorEnv[Any, Any, Any]):
    """Steps environments one after another, and converts what goes in and comes out.

    - Observations become float32 vectors, and images of bytes or of float32, in groups where there
      are several; see `rltrain_gymnasium.observed`.
    - Rewards become float32.
    - Actions for a Box are clipped to its bounds, as by `gymnasium.wrappers.ClipAction`: a policy
      with a normal distribution does not keep to them. Discrete actions count from 0, also where
      the environment's own do not.
    - Autoreset is SAME_STEP. `info["final_obs"]`, a dense batch, and its mask
      `info["_final_obs"]` are there in every step; the rows of environments that have not finished
      hold their observations. An episode that terminates in its very last step counts as
      terminated, not as truncated. The rest of the info stays as Gymnasium gives it, in numpy.

    Attributes:
        device: where the arrays are.
        max_episode_length: in steps, or None if episodes are not cut off.
    """

    def __init__(self, task: str, env: SyncVectorEnv, arrays: Arrays) -> None:
        """Take over the environments.

        Args:
            task: its name, for messages.
            env: the environments, whose observations are vectors, images or a Dict of these; with
                SAME_STEP autoreset.
            arrays: makes the arrays on the session's device.

        Raises:
            UsageError: the action space is none that can be learned.
        """
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
        self.single_observation_space = _as_given(env.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.single_action_space = _from_zero(self._space)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every environment; environment i is seeded with `seed + i`.

        Returns:
            Observations of shape (num_envs, ...), by group where there are several, and info.
        """
        observations, info = self._env.reset(seed=seed, options=options)
        return self._converted(observations), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished.

        Args:
            actions: shape (num_envs, components), or (num_envs,) for Discrete.

        Returns:
            Observations of shape (num_envs, ...), by group where there are several: float32, but
            images of bytes uint8; rewards, float32 of shape (num_envs,); terminations and
            truncations, bool of shape (num_envs,); info.
        """
        observations, rewards, terminations, truncations, info = self._env.step(
            self._actions(actions)
        )
        truncations = truncations & ~terminations
        done = terminations | truncations
        info["final_obs"] = self._converted(_with_last(observations, done, info))
        info["_final_obs"] = self._arrays.asarray(done, "bool")
        self._tell_success(info)
        return (
            self._converted(observations),
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

    def _converted(self, observations: Any) -> Any:
        if isinstance(observations, Mapping):
            return {name: self._converted(group) for name, group in observations.items()}
        image = observations.ndim == 4
        kind: Kind = "byte" if image and observations.dtype == np.uint8 else "float"
        return self._arrays.asarray(observations, kind)

    def _tell_success(self, info: dict[str, Any]) -> None:
        """Put what the episodes that ended say of their success where the session counts it."""
        info.pop("success", None)  # Of episodes that have just begun, where one has ended.
        last = info.get("final_info", {})
        told = last.get("is_success", last.get("success"))
        if told is not None:
            info["success"] = self._arrays.asarray(np.asarray(told, dtype=bool), "bool")

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
        task: an id that Gymnasium has.
        num_envs: how many environments.
        options: keyword arguments of `gymnasium.make`.
        arrays: makes the arrays on the session's device.
        renders: whether the first environment draws itself.

    Raises:
        UsageError: the task cannot be made, or not with these options, or cannot be drawn.
    """
    create = partial(_make_grouped, task, dict(options))
    creators = [create] * num_envs
    if renders:
        creators[0] = partial(_make_drawn, task, dict(options))
    env = SyncVectorEnv(creators, autoreset_mode=AutoresetMode.SAME_STEP)
    return ConvertedVectorEnv(task, env, arrays)


def _make_grouped(task: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    return grouped(task, make_single(task, options))


def _make_drawn(task: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    env = _make_grouped(task, options)
    if env.render_mode == "rgb_array":  # It sees what it draws.
        return env
    env.close()
    if "rgb_array" not in env.metadata.get("render_modes", ()):
        raise UsageError(f"--video: the task {task!r} does not draw itself. Leave --video out.")
    return _make_grouped(task, {**options, "render_mode": "rgb_array"})


def _with_last(observations: Any, done: npt.NDArray[Any], info: Mapping[str, Any]) -> Any:
    """Return observations with the last ones of the episodes that ended in their rows."""
    ended = np.flatnonzero(done)
    if isinstance(observations, Mapping):
        last = {name: group.copy() for name, group in observations.items()}
        for index in ended:
            for name, group in last.items():
                group[index] = info["final_obs"][index][name]
        return last
    last = observations.copy()
    for index in ended:
        last[index] = info["final_obs"][index]
    return last


def _as_given(space: Space[Any]) -> Space[Any]:
    """Return the observation space as libraries see it."""
    if isinstance(space, Dict):
        return Dict({name: _as_given(part) for name, part in space.spaces.items()})
    return space if is_image(space) and space.dtype == np.uint8 else _float32(space)


def _float32(space: Space[Any]) -> Box:
    assert isinstance(space, Box)
    # The greatest float64, which some tasks give as a bound, becomes infinity: as it should.
    with np.errstate(over="ignore"):
        return Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)


def _from_zero(space: Space[Any]) -> Space[Any]:
    """Return the action space as libraries see it."""
    if isinstance(space, Discrete):
        return Discrete(int(space.n))
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec)
    return _float32(space)
