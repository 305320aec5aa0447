"""rl_games' episode meters over all ranks. rl_games selects its best checkpoint by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from rl_games.algos_torch.torch_ext import AverageMeter

from rltrain.types import ProcessGroup

__all__ = ["PooledMeter", "pool_meters"]


class PooledMeter(AverageMeter):
    """Averages the episodes of all ranks, which are pooled once per epoch."""

    def __init__(self, meter: AverageMeter, shape: tuple[int, ...]) -> None:
        """Replace a meter.

        Args:
            meter: the meter to replace, which has seen no episode.
            shape: shape of one episode's value.
        """
        super().__init__(shape, meter.max_size)
        self.to(meter.mean.device)
        self._pending_sum = torch.zeros(shape, dtype=torch.float64, device=meter.mean.device)
        self._pending_count = 0

    def update(self, values: torch.Tensor) -> None:
        """Add finished episodes of this rank, shape (episodes, *shape), until they are pooled.

        rl_games calls it in every step. It does not wait for the device.
        """
        self._pending_sum = self._pending_sum + values.double().sum(0)
        self._pending_count += len(values)

    def pop_pending(self) -> torch.Tensor:
        """Return count and sum of this rank's new episodes, shape (1 + numel,), and clear them."""
        count = self._pending_sum.new_full((1,), self._pending_count)
        pending = torch.cat([count, self._pending_sum.flatten()])
        self._pending_sum, self._pending_count = torch.zeros_like(self._pending_sum), 0
        return pending

    def add_pooled(self, pooled: np.ndarray) -> None:
        """Add the new episodes of all ranks: the sum over ranks of what `pop_pending` returned."""
        count = int(pooled[0])
        if count:
            mean = torch.from_numpy(pooled[1:] / count).to(self.mean).view_as(self.mean)
            super().update(mean.expand(count, *mean.shape))


def pool_meters(group: ProcessGroup, meters: Sequence[PooledMeter]) -> None:
    """Add the new episodes of all ranks to every meter, in one collective."""
    pending = [meter.pop_pending() for meter in meters]
    pooled = group.all_reduce(torch.cat(pending), "sum").cpu().numpy()
    ends = np.cumsum([part.numel() for part in pending])[:-1]
    for meter, part in zip(meters, np.split(pooled, ends), strict=True):
        meter.add_pooled(part)
