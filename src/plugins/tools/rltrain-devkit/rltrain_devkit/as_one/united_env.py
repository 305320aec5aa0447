"""The environments of several ranks as those of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain_devkit.as_one.rows import Rows, merged


class UnitedEnv(VectorEnv[Any, Any, Any]):
    """Steps each rank's environments separately, and returns them as one batch.

    Each rank's environments start with that rank's seed, so that they go through the same states
    as on the rank.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP
    }

    def __init__(
        self, envs: Sequence[VectorEnv[Any, Any, Any]], rows: Rows, seeds: Sequence[int]
    ) -> None:
        """Unite."""
        self.envs = envs
        self.num_envs = rows.total
        self._places = [rows.of(rank) for rank in range(rows.ranks)]
        self._seeds = seeds
        self.single_observation_space = envs[0].single_observation_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = envs[0].single_action_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all; if there is a seed, each rank's with its own."""
        seeds = self._seeds if seed is not None else [None] * len(self.envs)
        results = [env.reset(seed=own) for env, own in zip(self.envs, seeds, strict=True)]
        return self._merged([observations for observations, _ in results]), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all, each with its rows of the actions."""
        pairs = zip(self.envs, self._places, strict=True)
        observations, rewards, terminations, truncations, infos = zip(
            *(env.step(actions[place]) for env, place in pairs), strict=True
        )
        info = {name: self._merged([each[name] for each in infos]) for name in infos[0]}
        return (
            self._merged(observations),
            self._merged(rewards),
            self._merged(terminations),
            self._merged(truncations),
            info,
        )

    @property
    def max_episode_length(self) -> int:
        """In steps."""
        return int(self.envs[0].unwrapped.max_episode_length)  # type: ignore[attr-defined]

    @property
    def step_dt(self) -> float:
        """Time between two steps, in s."""
        return float(self.envs[0].unwrapped.step_dt)  # type: ignore[attr-defined]

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since each environment's last reset, shape (num_envs,)."""
        lengths = [env.unwrapped.episode_length_buf for env in self.envs]  # type: ignore[attr-defined]
        return merged(lengths, self._places)

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        for env, place in zip(self.envs, self._places, strict=True):
            env.unwrapped.episode_length_buf = lengths[place]  # type: ignore[attr-defined]

    def _merged(self, parts: Sequence[Any]) -> Any:
        if isinstance(parts[0], dict):
            return {name: self._merged([part[name] for part in parts]) for name in parts[0]}
        return merged(list(parts), self._places)
