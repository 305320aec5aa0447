"""Converts the session's environments for Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from rltrain.errors import UsageError

__all__ = ["SessionVecEnv"]

Array = np.ndarray[Any, Any]


class SessionVecEnv(VecEnv):
    """Shows SB3 a session's environments. Of observation groups it sees only `policy`.

    Arrays are copies: SB3 changes rewards in place, and keeps an observation while the environments
    take the next step.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], device: str) -> None:
        """Wrap the environments.

        Args:
            env: environments with torch tensors on `device`.
            device: this rank's device, to which actions are copied.

        Raises:
            UsageError: SB3 cannot learn with these spaces.
        """
        self._env, self._device = env, device
        self._actions: Array = np.empty(0)
        self._logged: dict[str, list[float]] = {}
        space: Space[Any] = env.single_observation_space
        self._has_groups = isinstance(space, spaces.Dict)
        if isinstance(space, spaces.Dict):
            if "policy" not in space.spaces:
                raise UsageError(
                    f"The task's observation groups are {', '.join(space.spaces)}; SB3 needs one "
                    "named `policy`. Rename one, or use another task."
                )
            space = space["policy"]
        action = env.single_action_space
        if isinstance(action, spaces.Box) and not action.is_bounded():
            raise UsageError(
                f"The task's actions have no bounds ({action}), but SB3 clips to the bounds. Give "
                "the task finite ones, or use another library."
            )
        super().__init__(env.num_envs, space, action)

    def reset(self) -> Array:
        """Return the first observations, shape (num_envs, components)."""
        observations, _ = self._env.reset()
        return self._read(observations)

    def step_async(self, actions: Array) -> None:
        """Store the actions; SB3 calls `step_wait` next."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Step; the environments whose episode has ended are reset in this step.

        The info of such an environment has "terminal_observation", from which the value after a
        time limit is to be taken, and "TimeLimit.truncated", whether it was one.
        """
        observations, rewards, terminations, truncations, info = self._env.step(
            torch.tensor(self._actions, device=self._device)
        )
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if "final_obs" in info:
            final = self._read(info["final_obs"])
            time_limit = _copied(truncations & ~terminations)
            for index in np.flatnonzero(_copied(info["_final_obs"])):
                infos[index] = {
                    "terminal_observation": final[index],
                    "TimeLimit.truncated": bool(time_limit[index]),
                }
        for name, value in info.get("log", {}).items():
            mean = float(torch.as_tensor(value, dtype=torch.float32).mean())
            self._logged.setdefault(name, []).append(mean)
        dones = _copied(terminations | truncations)
        return self._read(observations), _copied(rewards), dones, infos

    def take_log(self) -> dict[str, float]:
        """Return the means of the metrics that the task has logged since the last call."""
        means = {name: sum(values) / len(values) for name, values in self._logged.items()}
        self._logged.clear()
        return means

    def _read(self, observations: Any) -> Array:
        return _copied(observations["policy"] if self._has_groups else observations)

    def close(self) -> None:
        """Do nothing: the session closes the environments."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return the environments' attribute, which is the same for all of them."""
        return [getattr(self._env, attr_name) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Return False: wrappers here wrap the whole batch, not single environments."""
        return [False for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: PPO never asks for it."""
        raise NotImplementedError

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Refuse: PPO never asks for it."""
        raise NotImplementedError


def _copied(tensor: torch.Tensor) -> Array:
    return tensor.numpy(force=True).copy()
