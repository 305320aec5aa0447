"""Running statistics pooled over ranks, for torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from skrl.resources.preprocessors.torch import RunningStandardScaler

from rltrain_skrl.run import normalizers
from rltrain_torch.moments import Moments


class PooledScaler(normalizers.PooledScaler, RunningStandardScaler):
    """skrl's scaler for torch; see `run/normalizers.py`."""

    def forward(
        self,
        x: torch.Tensor | None,
        *,
        train: bool = False,
        inverse: bool = False,
        no_grad: bool = True,
    ) -> Any:
        """Standardize data of shape (..., D); see skrl."""
        standardize = functools.partial(
            RunningStandardScaler.forward, self, inverse=inverse, no_grad=no_grad
        )
        return self._standardize(x, train, standardize)

    def merge(self, moments: Moments) -> None:
        """Merge the moments of a batch into the running ones, as skrl does."""
        moments = moments.usable()
        self._parallel_variance(moments.mean, moments.unbiased_variance, moments.count)


class ValueScaler(PooledScaler):
    """The scaler of values and returns: `RolloutMemory` updates it for both in one collective."""

    defers = True


class AsFloats:
    """A preprocessor that converts bytes to float32, and passes them to another one.

    The numbers stay between 0 and 255, as in skrl: the network's input expression in the options
    divides them.
    """

    def __init__(self, then: Callable[..., Any]) -> None:
        self._then = then

    def __call__(self, x: torch.Tensor | None, **options: Any) -> Any:
        """Preprocess observations; see skrl."""
        return self._then(None if x is None else x.to(torch.float32), **options)
