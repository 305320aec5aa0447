"""Running statistics pooled over ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from skrl.resources.preprocessors.torch import RunningStandardScaler

from rltrain_skrl.torch.moment_pool import MomentPool
from rltrain_torch.moments import Moments

__all__ = ["AsFloats", "PooledScaler", "Unscaled", "ValueScaler"]


class PooledScaler(RunningStandardScaler):
    """skrl's scaler, updated with the moments of all ranks' data before its values are used.

    Its state is equal on all ranks, and what one rank with all the data would have.
    """

    running_mean: torch.Tensor

    def __init__(self, size: Any, *, pool: MomentPool, **kwargs: Any) -> None:
        """Make a scaler.

        Args:
            size: as in skrl.
            pool: pools what it is trained on.
            kwargs: skrl's own options.
        """
        super().__init__(size, **kwargs)
        self._pool = pool

    def forward(
        self,
        x: torch.Tensor | None,
        *,
        train: bool = False,
        inverse: bool = False,
        no_grad: bool = True,
    ) -> torch.Tensor | None:
        """Standardise data of shape (..., D); with `train`, update first, which is collective."""
        if train and x is not None and self._pool.group.world_size > 1:
            rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
            self.merge(self._pool.moments(rows, self.running_mean))
            train = False
        result: torch.Tensor | None = super().forward(
            x, train=train, inverse=inverse, no_grad=no_grad
        )
        return result

    def merge(self, moments: Moments) -> None:
        """Merge moments of all ranks' data into the running ones, as skrl merges a batch's own."""
        # skrl takes Bessel's estimate of a batch's variance for its mean square.
        variance = moments.variance * moments.count / (moments.count - 1)
        self._parallel_variance(moments.mean, variance, moments.count)


@dataclass(frozen=True, eq=False)
class Unscaled:
    """Data that is still to be standardised, with what will."""

    data: torch.Tensor
    """Shape (T, N, 1)."""
    scaler: PooledScaler

    @property
    def rows(self) -> torch.Tensor:
        """The data, shape (T * N, 1)."""
        return self.data.reshape(-1, self.data.shape[-1])


class ValueScaler(PooledScaler):
    """The scaler of values and returns, which skrl trains on one after the other.

    It leaves that to the memory, to which both go (`rltrain_skrl.torch.memory.RolloutMemory`).
    """

    def forward(self, x: Any, *, train: bool = False, **options: Any) -> Any:
        """Standardise data; with `train`, on several ranks, return it `Unscaled`."""
        if train and self._pool.group.world_size > 1:
            return Unscaled(x, self)
        return super().forward(x, train=train, **options)


class AsFloats:
    """A preprocessor that makes float32 of bytes, and gives them to another.

    The numbers stay what they are, 0 to 255, as they do in skrl: what divides them is the network's
    input in the options.
    """

    def __init__(self, then: Callable[..., Any]) -> None:
        self._then = then

    def __call__(self, x: torch.Tensor | None, **options: Any) -> Any:
        """Preprocess observations; see skrl."""
        return self._then(None if x is None else x.to(torch.float32), **options)
