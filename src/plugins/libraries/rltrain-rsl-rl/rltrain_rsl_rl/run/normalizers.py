"""rsl_rl's normalizers with the statistics of all ranks.

rsl_rl itself pools the statistics over torch's default group, with three collectives per normalizer
and update. It does so whenever there is such a group: a run of one process inside another program's
group would wait for ranks that never call the collective. This module pools over the session's
group, all normalizers of an update in one collective, and merges in float64.
"""

from __future__ import annotations

import torch
from rsl_rl.modules import EmpiricalNormalization
from torch import nn

from rltrain.types import ProcessGroup
from rltrain_torch.moments import Moments, pool_moments


class PooledNormalization(EmpiricalNormalization):
    """rsl_rl's normalizer, which collects data until `NormalizerPool.pool` merges it."""

    pending: list[torch.Tensor] | None = None
    """Data of this rank that is not merged yet, each of shape (B, *shape)."""

    @classmethod
    def from_stock(cls, stock: EmpiricalNormalization) -> PooledNormalization:
        """Return a normalizer with the statistics and settings of rsl_rl's own."""
        mean = stock._mean
        pooled: PooledNormalization = cls(list(mean.shape[1:]), stock.eps, stock.until)
        pooled.to(mean.device)
        pooled.load_state_dict(stock.state_dict())
        pooled.train(stock.training)
        return pooled

    @torch.jit.unused
    def is_learning(self) -> bool:
        """Return whether it still learns: in training mode, until it has seen `until` rows."""
        return self.training and (self.until is None or bool(self.count < self.until))

    @torch.jit.unused
    def update(self, x: torch.Tensor) -> None:
        """Collect data, shape (B, *shape)."""
        if self.is_learning():
            self.pending = [*(self.pending or ()), x]

    @torch.jit.unused
    @torch.no_grad()
    def merge(self, batch: Moments) -> None:
        """Merge the moments of a batch of all ranks into the running statistics."""
        running = Moments(self.count, self._mean.double(), self._var.double()).merge(batch)
        self.count.copy_(running.count)
        self._mean.copy_(running.mean)
        self._var.copy_(running.variance)
        self._std.copy_(running.variance.sqrt())


class NormalizerPool:
    """The normalizers that are updated together, in one collective."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._members: list[PooledNormalization] = []

    def replace_in(self, module: nn.Module) -> None:
        """Replace the normalizers inside a model by pooled ones, and add them to this pool."""
        for name, child in module.named_children():
            # A derived class may update differently, so it is left alone.
            if type(child) is EmpiricalNormalization:
                pooled = PooledNormalization.from_stock(child)
                module.register_module(name, pooled)
                self._members.append(pooled)
            else:
                self.replace_in(child)

    def pool(self) -> None:
        """Merge the pending data of all members and ranks. Collective."""
        pending = [(item, item.pending) for item in self._members if item.pending is not None]
        batches = [(torch.cat(data), item._mean[0]) for item, data in pending]
        for (item, _), moments in zip(pending, pool_moments(self._group, batches), strict=True):
            item.merge(moments.usable())
            item.pending = None
