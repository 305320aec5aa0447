"""The suite: embedded tasks run batched on the device; Gymnasium's run behind a converter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain.errors import UsageError, in_a_line
from rltrain.hookspecs import hookimpl
from rltrain_gymnasium.arrays import Arrays, Kind, make_arrays
from rltrain_gymnasium.batched import BatchedEnv
from rltrain_gymnasium.observed import grouped, is_image
from rltrain_gymnasium.single import action_kind, make_single
from rltrain_gymnasium.tasks import EMBEDDED, configured
from rltrain_gymnasium.upstream import AnyInfoVectorEnv

if TYPE_CHECKING:
    from rltrain.session import Session


class GymnasiumSuite:
    """Makes environments of the embedded tasks and of all tasks registered with Gymnasium."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> VectorEnv[Any, Any, Any]:
        """Make this rank's environments."""
        config = session.config
        num_envs, device = config.num_envs or 1, session.world.device
        if config.task in EMBEDDED:
            task = configured(config.task, config.env)
            return BatchedEnv(task, num_envs, session.framework, device)
        arrays = make_arrays(session.framework, device)
        return make_converted(config.task, num_envs, config.env, arrays, session.renders)


class ConvertedVectorEnv(VectorEnv[Any, Any, Any]):
    """Steps environments one after another, and converts actions, observations and rewards.

    - Observations become float32 vectors, and uint8 or float32 images; several of them are a Dict
      of groups, see `rltrain_gymnasium.observed`.
    - Rewards become float32.
    - Actions for a Box are clipped to its bounds, as `gymnasium.wrappers.ClipAction` does, because
      a Gaussian policy exceeds them. Discrete actions count from 0 here.
    - Autoreset is SAME_STEP. Every step returns `info["final_obs"]`, a dense batch, and its mask
      `info["_final_obs"]`; the rows of unfinished environments hold their current observations. An
      episode that terminates in the step of its time limit counts as terminated, not as truncated.
      The rest of the info is passed on unchanged, in numpy.
    """

    def __init__(self, task: str, env: SyncVectorEnv, arrays: Arrays) -> None:
        """Wrap environments with SAME_STEP autoreset.

        Their observations are vectors, images or a Dict of these, and may be in the same memory at
        each step.
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
        self.mujoco_scene = _scene_of(env.envs)
        self.single_observation_space = _converted_space(env.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.single_action_space = _from_zero(self._space)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment; environment i is seeded with `seed + i`."""
        observations, info = self._called(self._env.reset, seed=seed, options=options)
        return self._converted(observations), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished."""
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
        continuous = self._kind == "continuous"
        own: npt.NDArray[Any]
        own = values.clip(space.low, space.high) if continuous else values + space.start
        return own.astype(space.dtype)


def make_converted(
    task: str,
    num_envs: int,
    options: Mapping[str, Any],
    arrays: Arrays,
    renders: bool = False,
) -> ConvertedVectorEnv:
    """Make environments of a task that is registered with Gymnasium.

    `options` are keyword arguments of `gymnasium.make`; with `renders`, the first one can render.
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
    if isinstance(observations, Mapping):
        return {
            name: _with_final(group, done, [last and last[name] for last in final])
            for name, group in observations.items()
        }
    rows = observations.copy()
    for index in np.flatnonzero(done):
        rows[index] = final[index]
    return rows


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


def _scene_of(envs: Sequence[Any]) -> Callable[[int], tuple[Any, Any]] | None:
    """Return what gives an environment's `MjModel` and `MjData`; None if they have none.

    Gymnasium's MuJoCo environments, and those of others that follow them, have them as `model` and
    `data`.
    """
    mujoco = sys.modules.get("mujoco")  # A module that simulates with it has imported it.
    if mujoco is None or not isinstance(getattr(envs[0].unwrapped, "model", None), mujoco.MjModel):
        return None

    def scene(index: int) -> tuple[Any, Any]:
        env = envs[index].unwrapped
        return env.model, env.data

    return scene
