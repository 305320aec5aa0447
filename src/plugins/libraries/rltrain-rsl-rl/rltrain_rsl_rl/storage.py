"""rsl_rl's rollout storage, with advantages standardized over all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from rsl_rl.storage import RolloutStorage

from rltrain.types import ProcessGroup
from rltrain_torch.moments import pool_moments, standardize


class SharedStorage(RolloutStorage):
    """A rollout storage that remembers its current mini-batch and knows the process group.

    Attributes:
        group: the process group.
        standardizes: whether the advantages of each mini-batch are standardized over all ranks.
        batch: the current mini-batch.
    """

    group: ProcessGroup
    standardizes: bool
    batch: RolloutStorage.Batch

    @classmethod
    def from_stock(cls, stock: RolloutStorage, group: ProcessGroup) -> SharedStorage:
        """Return a storage that uses the buffers of rsl_rl's own, which may be very large."""
        shared = cls.__new__(cls)
        shared.__dict__.update(vars(stock))
        shared.group, shared.standardizes = group, False
        return shared

    def mini_batch_generator(
        self, num_mini_batches: int, num_epochs: int = 8
    ) -> Iterator[RolloutStorage.Batch]:
        """Yield shuffled mini-batches."""
        return self._track(super().mini_batch_generator(num_mini_batches, num_epochs))

    def recurrent_mini_batch_generator(
        self, num_mini_batches: int, num_epochs: int = 8
    ) -> Iterator[RolloutStorage.Batch]:
        """Yield mini-batches of whole trajectories."""
        return self._track(super().recurrent_mini_batch_generator(num_mini_batches, num_epochs))

    def _track(self, batches: Iterable[RolloutStorage.Batch]) -> Iterator[RolloutStorage.Batch]:
        for batch in batches:
            if self.standardizes:
                batch.advantages = standardize_over_ranks(self.group, batch.advantages)
            self.batch = batch
            yield batch


@torch.no_grad()
def standardize_over_ranks(group: ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """Return `x` standardized by mean and standard deviation over all ranks. Collective."""
    [moments] = pool_moments(group, [(x.reshape(-1), None)])
    return standardize(x, moments)
