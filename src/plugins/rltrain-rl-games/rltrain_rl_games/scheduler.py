"""rl_games' adaptive learning-rate schedule, with the same decision on all ranks."""

from __future__ import annotations

import numpy as np
from rl_games.common.schedulers import RLScheduler

from rltrain.types import ProcessGroup

__all__ = ["PooledKlScheduler"]


class PooledKlScheduler(RLScheduler):
    """A learning-rate schedule that gets the mean KL divergence over all ranks."""

    def __init__(self, schedule: RLScheduler, group: ProcessGroup) -> None:
        super().__init__()
        self._schedule = schedule
        self._group = group

    def update(
        self, current_lr: float, entropy_coef: float, epoch: int, frames: int, kl_dist: float
    ) -> tuple[float, float]:
        """Return learning rate and entropy coefficient, equal on all ranks. Collective."""
        mean_kl = float(self._group.all_reduce(np.array([kl_dist]), "mean")[0])
        updated: tuple[float, float] = self._schedule.update(
            current_lr, entropy_coef, epoch, frames, mean_kl
        )
        return updated
