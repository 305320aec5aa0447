"""rl_games' episode meters over all ranks. rl_games selects its best checkpoint by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from rl_games.algos_torch.torch_ext import AverageMeter

from rltrain.types import ProcessGroup


class PooledMeter(AverageMeter):
    """Averages the episodes of all ranks, which are pooled once per epoch.

    They are added step by step, as one rank with all environments adds them: what falls out of the
    meter's window depends on it.
    """

    def __init__(self, meter: AverageMeter, shape: tuple[int, ...]) -> None:
        """Replace a meter.

        Args:
            meter: the meter to replace, which has seen no episode.
            shape: shape of one episode's value.
        """
        super().__init__(shape, meter.max_size)
        self.to(meter.mean.device)
        self._pending: list[torch.Tensor] = []

    def update(self, values: torch.Tensor) -> None:
        """Keep the episodes that ended in a step, shape (episodes, *shape), until they are pooled.

        rl_games calls it in every step. It does not wait for the device.
        """
        total = values.double().sum(0).flatten()
        self._pending.append(torch.cat([total.new_full((1,), len(values)), total]))

    def pop_pending(self) -> torch.Tensor:
        """Return count and sum of this rank's new episodes, and clear them.

        Returns:
            Shape (steps, 1 + numel).
        """
        none = self.mean.new_zeros((0, 1 + self.mean.numel()), dtype=torch.float64)
        pending, self._pending = self._pending, []
        return torch.stack(pending) if pending else none

    def add_pooled(self, pooled: np.ndarray) -> None:
        """Add the new episodes of all ranks: the sum over ranks of what `pop_pending` returned."""
        for count, *total in pooled:
            if count:
                mean = torch.tensor(total, dtype=torch.float64).div(count).to(self.mean)
                super().update(mean.view_as(self.mean).expand(int(count), *self.mean.shape))


def pool_meters(group: ProcessGroup, meters: Sequence[PooledMeter]) -> None:
    """Add the new episodes of all ranks to every meter, in one collective."""
    pending = [meter.pop_pending() for meter in meters]
    pooled = group.all_reduce(torch.cat(pending, 1), "sum").cpu().numpy()
    ends = np.cumsum([part.shape[1] for part in pending])[:-1]
    for meter, part in zip(meters, np.split(pooled, ends, axis=1), strict=True):
        meter.add_pooled(part)
