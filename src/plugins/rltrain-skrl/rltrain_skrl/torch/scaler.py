"""Running statistics pooled over ranks."""

from __future__ import annotations

from typing import Any

import torch
from skrl.resources.preprocessors.torch import RunningStandardScaler

from rltrain.types import ProcessGroup

__all__ = ["PooledScaler"]


class PooledScaler(RunningStandardScaler):
    """skrl's scaler, updated with the moments of all ranks' data before its values are used.

    Its state is equal on all ranks, and what one rank with all the data would have.
    """

    running_mean: torch.Tensor
    running_variance: torch.Tensor
    current_count: torch.Tensor

    def __init__(self, size: Any, *, group: ProcessGroup, **kwargs: Any) -> None:
        super().__init__(size, **kwargs)
        self._group = group

    def forward(
        self,
        x: torch.Tensor | None,
        *,
        train: bool = False,
        inverse: bool = False,
        no_grad: bool = True,
    ) -> torch.Tensor | None:
        """Standardise data of shape (..., D); with `train`, update first, which is collective."""
        if train and x is not None and self._group.world_size > 1:
            with torch.no_grad():
                self._update(x.reshape(-1, x.shape[-1]))
            train = False
        result: torch.Tensor | None = super().forward(
            x, train=train, inverse=inverse, no_grad=no_grad
        )
        return result

    def _update(self, x: torch.Tensor) -> None:
        """Merge the moments of (B, D) data of every rank into the running ones, in one collective.

        The moments are taken about the running mean, which is equal on all ranks: about zero, a
        variance that is small against the mean would be lost in rounding.
        """
        shift = x.mean(dim=0).double() - self.running_mean
        count = shift.new_full((1,), x.shape[0])
        local = torch.cat([count, count * shift, count * (x.var(dim=0).double() + shift**2)])
        pooled = self._group.all_reduce(local, "sum")
        count, (first, second) = pooled[:1], pooled[1:].chunk(2)
        shift, seen = first / count, self.current_count
        total = seen + count
        spread = self.running_variance * seen + second - count * shift**2
        self.running_variance = (spread + shift**2 * seen * count / total) / total
        self.running_mean = self.running_mean + shift * count / total
        self.current_count = total.reshape(())
