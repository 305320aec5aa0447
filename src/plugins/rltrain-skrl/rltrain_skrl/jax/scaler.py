"""Running statistics pooled over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from skrl.resources.preprocessors.jax import RunningStandardScaler

from rltrain_jax.moments import Moments
from rltrain_skrl.jax.moment_pool import MomentPool

__all__ = ["PooledScaler", "Unscaled", "ValueScaler"]


class PooledScaler(RunningStandardScaler):
    """skrl's scaler, updated with the moments of all ranks' data before its values are used.

    Its state is equal on all ranks, and what one rank with all the data would have.
    """

    # skrl's, used by this class.
    running_mean: jax.Array
    running_variance: jax.Array
    current_count: jax.Array
    device: jax.Device

    def __init__(self, size: Any, *, pool: MomentPool, **kwargs: Any) -> None:
        """Make a scaler.

        Args:
            size: as in skrl.
            pool: pools what it is trained on.
            kwargs: skrl's own options.
        """
        super().__init__(size, **kwargs)
        self._pool = pool

    def __call__(self, x: Any, *, train: bool = False, inverse: bool = False) -> Any:
        """Standardise data of shape (..., D); with `train`, update first, which is collective."""
        if train and x is not None and self._pool.group.world_size > 1:
            rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
            self.merge(self._pool.moments(rows, self.running_mean))
            train = False
        return super().__call__(x, train=train, inverse=inverse)

    def merge(self, moments: Moments) -> None:
        """Merge moments of all ranks' data into the running ones, as skrl merges a batch's own."""
        # skrl takes Bessel's estimate of a batch's variance for its mean square.
        variance = moments.variance * moments.count / (moments.count - 1)
        mean, mean_square, count = (
            np.asarray(x, dtype=np.float64)
            for x in (self.running_mean, self.running_variance, self.current_count)
        )
        delta, total = moments.mean - mean, count + moments.count
        squares = mean_square * count + variance * moments.count
        squares += np.square(delta) * count * moments.count / total
        merged = mean + delta * moments.count / total, squares / total, total
        self.running_mean, self.running_variance, self.current_count = jax.device_put(
            tuple(x.astype(np.float32) for x in merged), self.device
        )


@dataclass(frozen=True, eq=False)
class Unscaled:
    """Data that is still to be standardised, with what will."""

    data: jax.Array
    """Shape (T, N, 1)."""
    scaler: PooledScaler

    @property
    def rows(self) -> jax.Array:
        """The data, shape (T * N, 1)."""
        return self.data.reshape(-1, self.data.shape[-1])


class ValueScaler(PooledScaler):
    """The scaler of values and returns, which skrl trains on one after the other.

    It leaves that to the memory, to which both go (`rltrain_skrl.jax.memory.RolloutMemory`).
    """

    def __call__(self, x: Any, *, train: bool = False, inverse: bool = False) -> Any:
        """Standardise data; with `train`, on several ranks, return it `Unscaled`."""
        if train and self._pool.group.world_size > 1:
            return Unscaled(x, self)
        return super().__call__(x, train=train, inverse=inverse)
