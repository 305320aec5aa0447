"""rl_games' learning-rate schedules, decided alike on all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from rl_games.common.schedulers import AdaptiveScheduler, RLScheduler

__all__ = ["CommonScheduler"]


class CommonScheduler(RLScheduler):
    """A learning-rate schedule that sees the mean KL of all ranks, and the true frame count.

    rl_games passes 0 frames, with which a schedule over frames would never move.
    """

    def __init__(self, schedule: RLScheduler, agent: Any) -> None:
        super().__init__()
        self.schedule = schedule
        self._agent = agent
        group = agent.session.group
        # The other schedules do not look at it.
        self._pools = isinstance(schedule, AdaptiveScheduler) and group.world_size > 1

    def update(
        self, current_lr: float, entropy_coef: float, epoch: int, frames: int, kl_dist: float
    ) -> tuple[float, float]:
        """Return learning rate and entropy coefficient, equal on all ranks."""
        if self._pools:
            group = self._agent.session.group
            kl_dist = float(group.all_reduce(np.array([kl_dist]), "mean")[0])
        result: tuple[float, float] = self.schedule.update(
            current_lr, entropy_coef, epoch, self._agent.frame, kl_dist
        )
        return result
