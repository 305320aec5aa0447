"""Environments for libraries that take numpy, and a list of infos: one for each environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv

from rltrain.errors import UsageError

__all__ = ["NumpyEnv"]

Array = np.ndarray[Any, Any]


class NumpyEnv:
    """Converts a session's environments for a library that takes numpy, such as by SB3's `VecEnv`.

    Arrays are copies: such libraries change rewards in place, and keep an observation while the
    environments take the next step.

    Attributes:
        num_envs: how many environments this rank has.
        observation_space: one environment's, of the group that is read.
        action_space: one environment's.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        device: str,
        group: str = "policy",
        reader: str = "the library",
    ) -> None:
        """Wrap the environments.

        Args:
            env: `session.env`, of tensors.
            device: `session.world.device`, to which actions are copied.
            group: the observation group that is read, if there are several.
            reader: who reads it, for the message.

        Raises:
            UsageError: there is no such group.
        """
        self._env, self._device = env, device
        self._logged: dict[str, list[float]] = {}
        space: Space[Any] = env.single_observation_space
        self._group = group if isinstance(space, spaces.Dict) else None
        if isinstance(space, spaces.Dict):
            if group not in space.spaces:
                raise UsageError(
                    f"The task's observation groups are {', '.join(space.spaces)}; {reader} needs "
                    f"one named `{group}`. Rename one, or use another task."
                )
            space = space[group]
        self.num_envs = env.num_envs
        self.observation_space, self.action_space = space, env.single_action_space

    def reset(self) -> Array:
        """Return the first observations, shape (num_envs, *shape)."""
        observations, _ = self._env.reset()
        return self._read(observations)

    def step(self, actions: Array) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Step the environments; those whose episode has ended are reset in this step.

        Args:
            actions: shape (num_envs, *shape).

        Returns:
            Observations (num_envs, *shape), rewards (num_envs,) of float32, whether episodes have
            ended (num_envs,) of bool, and a list with an info for each environment. Of an episode
            that has ended it has "terminal_observation", shape (*shape), from which the value
            after a time limit is to be taken, and "TimeLimit.truncated", whether it was one; else
            it is empty.
        """
        observations, rewards, terminations, truncations, info = self._env.step(
            torch.tensor(actions, device=self._device)
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
        return _copied(observations if self._group is None else observations[self._group])


def _copied(tensor: torch.Tensor) -> Array:
    return tensor.numpy(force=True).copy()
