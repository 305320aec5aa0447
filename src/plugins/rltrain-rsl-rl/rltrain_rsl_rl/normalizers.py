"""rsl_rl's normalisers, with the moments of all ranks' data.

rsl_rl's own pools over torch's default group, exactly, with three collectives for each normaliser
and update, and whenever there is such a group: a run of one process inside another's group would
wait for peers that never come. These pool over the session's group, all normalisers of an update in
one collective, and merge in float64.
"""

from __future__ import annotations

import torch
from rsl_rl.modules import EmpiricalNormalization
from torch import nn

from rltrain.types import ProcessGroup
from rltrain_torch.moments import Moments, pool_moments

__all__ = ["NormalizerPool", "PooledNormalization"]


class PooledNormalization(EmpiricalNormalization):
    """rsl_rl's normaliser, which keeps what it is given until its pool merges it.

    Its state has rsl_rl's names.
    """

    waiting: list[torch.Tensor] | None = None
    """Data of this rank that is not merged yet, each of shape (B, *shape)."""

    @classmethod
    def like(cls, other: EmpiricalNormalization) -> PooledNormalization:
        """Return one with another's statistics and settings."""
        mean = other._mean
        pooled: PooledNormalization = cls(list(mean.shape[1:]), other.eps, other.until)
        pooled.to(mean.device)
        pooled.load_state_dict(other.state_dict())
        pooled.train(other.training)
        return pooled

    @torch.jit.unused
    def learns(self) -> bool:
        """Return whether it takes data: not in evaluation, nor once it has seen `until` rows."""
        return self.training and (self.until is None or bool(self.count < self.until))

    @torch.jit.unused
    def update(self, x: torch.Tensor) -> None:
        """Keep data, shape (B, *shape), until `NormalizerPool.flush`."""
        if self.learns():
            self.waiting = [*(self.waiting or ()), x]

    @torch.jit.unused
    @torch.no_grad()
    def merge(self, batch: Moments) -> None:
        """Merge the moments of one batch of all ranks into the running ones."""
        mean, variance = self._mean.double(), self._var.double()
        count = self.count + batch.count
        rate = batch.count / count
        distance = batch.mean - mean
        mean = mean + rate * distance
        variance = variance + rate * (batch.variance - variance + distance * (batch.mean - mean))
        self.count.copy_(count)
        self._mean.copy_(mean)
        self._var.copy_(variance)
        self._std.copy_(variance.sqrt())


class NormalizerPool:
    """The normalisers that are updated together."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._members: list[PooledNormalization] = []

    def take_over(self, module: nn.Module) -> None:
        """Put normalisers of this pool in place of a model's own, as SyncBatchNorm's do."""
        for name, child in module.named_children():
            # A class derived from rsl_rl's may update otherwise: it stays.
            if type(child) is EmpiricalNormalization:
                pooled = PooledNormalization.like(child)
                module.register_module(name, pooled)
                self._members.append(pooled)
            else:
                self.take_over(child)

    def flush(self) -> None:
        """Merge what all members keep, on all ranks, in one collective."""
        waiting = [(item, item.waiting) for item in self._members if item.waiting is not None]
        if not waiting:
            return
        batches = [(torch.cat(data), item._mean[0]) for item, data in waiting]
        pooled = pool_moments(self._group, batches)
        for (item, _), moments in zip(waiting, pooled, strict=True):
            item.merge(moments)
            item.waiting = None
