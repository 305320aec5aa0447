"""rl_games' adaptive learning-rate schedule, with the same decision on all ranks."""

from __future__ import annotations

from typing import Any

from rl_games.common.schedulers import RLScheduler

from rltrain.types import ProcessGroup
from rltrain_torch.late_mean import LateMean


class PooledKlScheduler(RLScheduler):
    """A learning-rate schedule that gets the mean KL divergence over all ranks, at the next step.

    Attributes:
        divergence: that of this rank, until it is averaged together with the next gradients.
    """

    def __init__(self, schedule: RLScheduler, agent: Any, group: ProcessGroup) -> None:
        """Set the learning rate of `agent` as another schedule says."""
        super().__init__()
        self._schedule = schedule
        self._agent = agent
        self.divergence = LateMean(group, self._decide)

    def update(
        self, current_lr: float, entropy_coef: float, epoch: int, frames: int, kl_dist: float
    ) -> tuple[float, float]:
        """Keep learning rate and entropy coefficient until the mean over ranks is known."""
        self.divergence.put(kl_dist)
        return current_lr, entropy_coef

    def _decide(self, mean: float) -> None:
        agent = self._agent
        agent.last_lr, agent.entropy_coef = self._schedule.update(
            agent.last_lr, agent.entropy_coef, agent.epoch_num, agent.frame, mean
        )
        agent.update_lr(agent.last_lr)
