"""Running statistics pooled over ranks, for jax."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
from skrl.resources.preprocessors.jax import RunningStandardScaler

from rltrain_jax.moments import Moments, merge_moments
from rltrain_skrl.run import normalizers


class PooledScaler(normalizers.PooledScaler, RunningStandardScaler):
    """skrl's scaler for jax; see `run/normalizers.py`."""

    # skrl's, used by this class.
    running_mean: jax.Array
    running_variance: jax.Array
    current_count: jax.Array
    device: jax.Device

    def __call__(self, x: Any, *, train: bool = False, inverse: bool = False) -> Any:
        """Standardize data of shape (..., D); see skrl."""
        standardize = functools.partial(RunningStandardScaler.__call__, self, inverse=inverse)
        return self._standardize(x, train, standardize)

    def merge(self, moments: Moments) -> None:
        """Merge the moments of a batch into the running ones, as skrl does."""
        mean, variance, count = (
            np.asarray(x, dtype=np.float64)
            for x in (self.running_mean, self.running_variance, self.current_count)
        )
        moments = moments.usable()
        batch = dataclasses.replace(moments, variance=moments.unbiased_variance)
        merged = merge_moments(Moments(count.item(), mean, variance), batch)
        running = merged.mean, merged.variance, np.full(count.shape, merged.count)
        self.running_mean, self.running_variance, self.current_count = jax.device_put(
            tuple(x.astype(np.float32) for x in running), self.device
        )


class ValueScaler(PooledScaler):
    """The scaler of values and returns: `RolloutMemory` updates it for both in one collective."""

    defers = True
