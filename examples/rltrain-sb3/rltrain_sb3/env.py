"""Converts the session's environments for Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from rltrain.errors import UsageError
from rltrain_torch.numpy_env import NumpyEnv

__all__ = ["SessionVecEnv"]


class SessionVecEnv(VecEnv):
    """Shows SB3 a session's environments. Of observation groups it sees only `policy`."""

    def __init__(self, env: VectorEnv[Any, Any, Any], device: str) -> None:
        """Wrap the environments.

        Args:
            env: environments with torch tensors on `device`.
            device: this rank's device, to which actions are copied.

        Raises:
            UsageError: SB3 cannot learn with these spaces.
        """
        self._env, self._numpy = env, NumpyEnv(env, device, reader="SB3")
        self._actions: np.ndarray[Any, Any] = np.empty(0)
        action = env.single_action_space
        if isinstance(action, spaces.Box) and not action.is_bounded():
            raise UsageError(
                f"The task's actions have no bounds ({action}), but SB3 clips to the bounds. Give "
                "the task finite ones, or use another library."
            )
        super().__init__(env.num_envs, self._numpy.observation_space, action)

    def reset(self) -> np.ndarray[Any, Any]:
        """Return the first observations, shape (num_envs, components)."""
        return self._numpy.reset()

    def step_async(self, actions: np.ndarray[Any, Any]) -> None:
        """Store the actions; SB3 calls `step_wait` next."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Step; see `NumpyEnv.step`."""
        return self._numpy.step(self._actions)

    def take_log(self) -> dict[str, float]:
        """Return the means of the metrics that the task has logged since the last call."""
        return self._numpy.take_log()

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
