"""rl_games' episode meters over all ranks: it chooses its best checkpoint and its end by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from rl_games.algos_torch.torch_ext import AverageMeter

from rltrain.types import ProcessGroup

__all__ = ["PooledMeter", "pool_meters"]


class PooledMeter(AverageMeter):
    """Takes in the episodes of all ranks, once an epoch, so that it is equal on all of them."""

    def __init__(self, meter: AverageMeter, shape: tuple[int, ...]) -> None:
        """Take a meter's place.

        Args:
            meter: one that has seen no episode.
            shape: of one episode's figure.
        """
        super().__init__(shape, meter.max_size)
        self.to(meter.mean.device)
        self._sum = torch.zeros(shape, dtype=torch.float64, device=meter.mean.device)
        self._episodes = 0

    def update(self, values: torch.Tensor) -> None:
        """Keep this rank's episodes, shape (episodes, *shape), until ranks meet.

        It is called in every step, and does not wait for the device.
        """
        self._sum = self._sum + values.double().sum(0)
        self._episodes += len(values)

    def take(self) -> torch.Tensor:
        """Return and forget number and sum of this rank's new episodes, shape (1 + numel,)."""
        taken = torch.cat([self._sum.new_full((1,), self._episodes), self._sum.flatten()])
        self._sum, self._episodes = torch.zeros_like(self._sum), 0
        return taken

    def add(self, pooled: np.ndarray) -> None:
        """Take in all ranks' new episodes, given like `take`'s."""
        episodes = int(pooled[0])
        if episodes:
            mean = torch.from_numpy(pooled[1:] / episodes).to(self.mean).view_as(self.mean)
            super().update(mean.expand(episodes, *mean.shape))


def pool_meters(group: ProcessGroup, meters: Sequence[PooledMeter]) -> None:
    """Give every meter all ranks' new episodes, in one collective."""
    taken = [meter.take() for meter in meters]
    pooled = group.all_reduce(torch.cat(taken), "sum").cpu().numpy()
    ends = np.cumsum([part.numel() for part in taken])[:-1]
    for meter, part in zip(meters, np.split(pooled, ends), strict=True):
        meter.add(part)
