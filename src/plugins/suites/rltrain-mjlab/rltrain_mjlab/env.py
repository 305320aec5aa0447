"""Wraps mjlab's environments of a task as a vector environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from mjlab.envs import ManagerBasedRlEnv

from rltrain.errors import UsageError
from rltrain_adapters import check_mujoco_draws
from rltrain_mjlab.generators import SeparateGenerators
from rltrain_mjlab.registry import start_warp
from rltrain_mjlab.scene import Scene
from rltrain_mjlab.tasks import GROUPS
from rltrain_torch.curricula import Curricula, HasCurricula


class MjlabEnv(HasCurricula, VectorEnv[Any, Any, Any]):
    """Steps mjlab's environments, which are already batched.

    - Autoreset is SAME_STEP. With mjlab's `auto_reset` (its default) the last observation of an
      episode is never computed, so there is no `info["final_obs"]`. Without `auto_reset`, finished
      environments are reset here, after their last observations are read; each step that ends an
      episode then computes kinematics, sensors and observations twice.
    - As in mjlab, terms with `time_out` truncate, others terminate, and an episode that does both
      counts as terminated. If the task has a finite horizon (`is_finite_horizon`), the time limit
      terminates too.
    - mjlab's group `actor` is named `policy`. Images are float32; mjlab's channels come first, and
      are moved last.
    - The metrics that mjlab logs when episodes end are in `info["log"]`.
    - mjlab draws from the global random generators; here it does so from a state of its own.

    Attributes:
        cfg: mjlab's configuration.
        device: the device of the arrays.
        step_dt: time between two steps, in s.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
    }

    def __init__(self, task: str, config: Any, device: str = "cpu", renders: bool = False) -> None:
        """Make the environments.

        Args:
            task: the task's name, for messages.
            config: mjlab's configuration of the task, with number of environments and seed.
            device: the device of the arrays, such as "cuda:1".
            renders: whether `render` will be called.
        """
        start_warp(device)
        if renders:
            check_mujoco_draws()
        self.render_mode = "rgb_array" if renders else None
        self.cfg = config
        self.device = device
        self.num_envs = int(config.scene.num_envs)
        self._generators = SeparateGenerators(device)
        self._scene: Scene | None = None
        try:
            with self._generators.active():
                self._env = ManagerBasedRlEnv(config, device, self.render_mode)
        except ValueError as error:
            raise UsageError(
                f"mjlab cannot make the task {task} with these options: {error}"
            ) from error
        self._auto_reset = getattr(config, "auto_reset", True)  # mjlab 1.2 always does.
        self._curricula = Curricula(self._env)
        self.step_dt = float(self._env.step_dt)
        self.single_observation_space = _spaces(self._env.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = _box(self._env.single_action_space)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment.

        Args:
            seed: seeds the random numbers. None continues the current sequence.
            options: not used.

        Returns:
            Observations by group, of shape (num_envs, ...), and an empty info.
        """
        super().reset(seed=seed)
        with self._generators.active():
            observations, _ = self._env.reset(seed=seed)
        self._curricula.after_reset()
        return _grouped(observations), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment, and reset those that have finished.

        Args:
            actions: shape (num_envs, components).

        Returns:
            Observations, as from `reset`; rewards, float32 of shape (num_envs,); terminations and
            truncations, bool of shape (num_envs,); info.
        """
        actions = torch.as_tensor(actions, dtype=torch.float32, device=self.device)
        self._env.extras["log"] = {}  # mjlab 1.2 keeps what the last reset has logged.
        with self._generators.active():
            observations, rewards, terminated, truncated, extras = self._env.step(actions)
            if self.cfg.is_finite_horizon:
                terminated = terminated | truncated
            # Copied, because mjlab overwrites its arrays in the next step or reset.
            rewards, terminated = rewards.to(torch.float32, copy=True), terminated.clone()
            truncated = truncated & ~terminated
            log, info = dict(extras["log"]), dict[str, Any]()
            if not self._auto_reset:
                ended = terminated | truncated
                info = {"final_obs": _grouped(observations), "_final_obs": ended}
                indices = ended.nonzero().squeeze(-1)
                if len(indices):
                    observations, extras = self._env.reset(env_ids=indices)
                    log |= extras["log"]
        if log:
            info["log"] = log
        return _grouped(observations), rewards, terminated, truncated, info

    def render(self) -> tuple[Any, ...]:
        """Return what the camera of `cfg.viewer` sees, uint8 of shape (height, width, 3)."""
        return (self._env.render(),)

    def mujoco_scene(self, index: int) -> tuple[Any, Any]:
        """Return an environment's model and its state, for a viewer: copies, of this method."""
        if self._scene is None:
            self._scene = Scene(self._env.sim)
        return self._scene.of(index)

    @property
    def simulation(self) -> ManagerBasedRlEnv:
        """The environments of mjlab."""
        return self._env

    @property
    def max_episode_length(self) -> int:
        """The time limit of an episode, in steps."""
        return int(self._env.max_episode_length)

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since each environment's last reset, integers of shape (num_envs,)."""
        lengths: torch.Tensor = self._env.episode_length_buf
        return lengths

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: Any) -> None:
        # Copied, because mjlab increments the lengths in place.
        self._env.episode_length_buf.copy_(torch.as_tensor(lengths).reshape(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Close mjlab's environment, and with it its recorders."""
        self._env.close()


def _spaces(groups: Any) -> Dict:
    """Return the space of one environment's observations."""
    spaces: dict[str, Space[Any]] = {}
    for name, part in groups.spaces.items():
        if hasattr(part, "spaces"):
            raise UsageError(
                f"The observation group {name!r} is not one array, which the libraries need. Give "
                f"env.observations.{name}.concatenate_terms=true."
            )
        box = _box(part)
        if _is_image(part.shape):
            box = Box(np.moveaxis(box.low, 0, -1), np.moveaxis(box.high, 0, -1), dtype=np.float32)
        spaces[GROUPS.get(name, name)] = box
    return Dict(spaces)


def _box(space: Any) -> Box:
    low, high = (np.broadcast_to(np.float32(x), space.shape) for x in (space.low, space.high))
    return Box(low, high, dtype=np.float32)


def _grouped(observations: Mapping[str, Any]) -> dict[str, Any]:
    return {
        GROUPS.get(name, name): group.movedim(1, -1) if _is_image(group.shape[1:]) else group
        for name, group in observations.items()
    }


def _is_image(shape: tuple[int, ...]) -> bool:
    """Return whether one environment's observation is an image; mjlab's have channels first."""
    return len(shape) == 3
