"""Wraps Isaac Lab's environments as a vector environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain_isaaclab.arrays import ArrayConverter
from rltrain_isaaclab.images import with_channels_last, with_channels_moved
from rltrain_torch.curricula import Curricula, HasCurricula


class IsaacLabEnv(HasCurricula, VectorEnv[Any, Any, Any]):
    """Steps all environments at once, on the simulation's device.

    - Autoreset is SAME_STEP, as in Isaac Lab. With Isaac Lab 3's `compute_final_obs`, the steps in
      which an episode ended return `info["final_obs"]` and its mask.
    - The observation groups are Isaac Lab's (`policy`, `critic` for its states, and others); if
      `policy` is the only one, observations are an array. Images have the dtype of their space,
      with the channels last: channels that come first are moved, as those of stacked frames are.
    - If the configuration sets `is_finite_horizon`, time-outs count as terminations.
    - Isaac Lab draws random numbers from the global generators. `reset(seed=...)` seeds them with
      this rank's seed.
    - All other attributes, such as managers and scene, are those of Isaac Lab's environment.

    Attributes:
        cfg: the task's configuration.
        device: the device of the arrays.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
    }

    def __init__(
        self, env: Any, converter: ArrayConverter, draw: Callable[[], Any] | None = None
    ) -> None:
        """Wrap the environments.

        Args:
            env: Isaac Lab's environment, without wrappers.
            converter: converts arrays to the session's framework and back.
            draw: returns a frame; by default, Isaac Lab's environment does.
        """
        self._env, self._converter, self._draw = env, converter, draw or env.render
        self.cfg = env.cfg
        self.render_mode = getattr(env, "render_mode", None)
        self._curricula = Curricula(env)
        self.num_envs = int(env.num_envs)
        self.device = converter.device
        groups = env.single_observation_space
        self._grouped = len(groups) > 1 or not isinstance(groups.get("policy"), Box)
        self._their_space = groups if self._grouped else groups["policy"]
        self.single_observation_space = with_channels_last(self._their_space, env.cfg)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = env.single_action_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        # Isaac Lab's tasks take a discrete action as a vector with one component.
        choice = isinstance(self.single_action_space, Discrete)
        part = (1,) if choice else self.single_action_space.shape
        self._action_shape = (self.num_envs, *(part or ()))

    def __getattr__(self, name: str) -> Any:
        # Isaac Lab's state does not hold everything that the next steps depend on.
        if name.startswith("_") or name in ("get_state", "set_state"):
            raise AttributeError(name)
        return getattr(self._env, name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment.

        Args:
            seed: seeds the global generators. None leaves them unchanged.
            options: not used.

        Returns:
            Observations of shape (num_envs, ...), by group if there are several, and an empty info.
        """
        observations, _ = self._env.reset(seed=seed)
        self._curricula.after_reset()
        return self._given(observations), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment; Isaac Lab resets those that have finished.

        Args:
            actions: shape (num_envs, components); discrete actions are integers, (num_envs,).

        Returns:
            Observations, as from `reset`; rewards, float32 of shape (num_envs,); terminations and
            truncations, bool of shape (num_envs,); info.
        """
        taken = self._converter.to_torch(actions).reshape(self._action_shape)
        observations, rewards, terminated, timed_out, extras = self._env.step(taken)
        if getattr(self.cfg, "is_finite_horizon", False):
            terminated, timed_out = terminated | timed_out, torch.zeros_like(timed_out)
        info: dict[str, Any] = {}
        ended = terminated | timed_out
        # It stays in `extras` until the next episode ends, also after a reset.
        if extras.get("final_obs") is not None and ended.any():
            info["final_obs"] = self._given(extras["final_obs"])
            info["_final_obs"] = self._row(ended, torch.bool)
        log = extras.get("log", extras.get("episode"))
        if isinstance(log, Mapping):
            info["log"] = {name: self._scalar(value) for name, value in log.items()}
        return (
            self._given(observations),
            self._row(rewards, torch.float32),
            self._row(terminated, torch.bool),
            self._row(timed_out, torch.bool),
            info,
        )

    def render(self) -> tuple[Any, ...]:
        """Return a frame, uint8 of shape (height, width, 3)."""
        return (self._draw(),)

    @property
    def max_episode_length(self) -> int:
        """In steps."""
        return int(self._env.max_episode_length)

    @property
    def step_dt(self) -> float:
        """Time between two steps, in s."""
        return float(self._env.step_dt)

    @property
    def episode_length_buf(self) -> Any:
        """Steps since each environment's last reset, integers of shape (num_envs,)."""
        return self._converter.to_session(self._env.episode_length_buf)

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: Any) -> None:
        buffer = self._env.episode_length_buf
        taken = self._converter.to_torch(lengths).reshape(buffer.shape)
        self._env.episode_length_buf = taken.to(buffer.device, buffer.dtype)

    def close_extras(self, **kwargs: Any) -> None:
        """Close Isaac Lab's environments, once. The app keeps running."""
        self._env.close()

    def _given(self, observations: Any) -> Any:
        chosen = observations if self._grouped else observations["policy"]
        moved = with_channels_moved(chosen, self._their_space, self.single_observation_space)
        return self._converter.to_session_each(moved, self.single_observation_space)

    def _row(self, tensor: torch.Tensor, dtype: torch.dtype) -> Any:
        return self._converter.to_session(tensor.reshape(self.num_envs), dtype)

    def _scalar(self, value: Any) -> Any:
        """Return a metric as a scalar, without synchronizing with the device."""
        if not isinstance(value, torch.Tensor):
            return value
        return self._converter.to_session(value.float().mean())
