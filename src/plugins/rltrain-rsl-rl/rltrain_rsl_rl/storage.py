"""rsl_rl's rollout storage, whose mini-batches are parts of mini-batches over all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from rsl_rl.storage import RolloutStorage

from rltrain.types import ProcessGroup
from rltrain_torch.moments import pool_moments

__all__ = ["SharedStorage", "standardised"]


class SharedStorage(RolloutStorage):
    """A rollout storage that knows its mini-batch and the other ranks.

    Attributes:
        group: the process group.
        standardises: whether each mini-batch's advantages are standardised, over all ranks.
        batch: the mini-batch that was given out last.
    """

    group: ProcessGroup
    standardises: bool
    batch: RolloutStorage.Batch

    @classmethod
    def around(cls, storage: RolloutStorage, group: ProcessGroup) -> SharedStorage:
        """Return one on the buffers of another, which may be as large as memory allows."""
        shared = cls.__new__(cls)
        shared.__dict__.update(vars(storage))
        shared.group, shared.standardises = group, False
        return shared

    def mini_batch_generator(
        self, num_mini_batches: int, num_epochs: int = 8
    ) -> Iterator[RolloutStorage.Batch]:
        """Yield shuffled mini-batches."""
        return self._given_out(super().mini_batch_generator(num_mini_batches, num_epochs))

    def recurrent_mini_batch_generator(
        self, num_mini_batches: int, num_epochs: int = 8
    ) -> Iterator[RolloutStorage.Batch]:
        """Yield mini-batches of whole trajectories."""
        return self._given_out(super().recurrent_mini_batch_generator(num_mini_batches, num_epochs))

    def _given_out(self, batches: Iterable[RolloutStorage.Batch]) -> Iterator[RolloutStorage.Batch]:
        for batch in batches:
            if self.standardises:
                batch.advantages = standardised(self.group, batch.advantages)
            self.batch = batch
            yield batch


@torch.no_grad()
def standardised(group: ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """Return x minus its mean over all ranks, over its deviation over all ranks. Collective."""
    values = x.reshape(-1)
    [moments] = pool_moments(group, [(values, values.new_zeros(()))])
    std = (moments.variance * moments.count / (moments.count - 1)).sqrt()
    result: torch.Tensor = (x - moments.mean) / (std + 1e-8)
    return result.to(x.dtype)
