"""KL divergences averaged over ranks, so that all ranks decide the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from rltrain.types import ProcessGroup

__all__ = ["SharedDivergence", "SharedThreshold"]


class SharedThreshold:
    """A number that compares with the mean of an array over ranks; each comparison is collective.

    skrl ends an epoch when a mini-batch's KL divergence is above `kl_threshold`. A rank that ended
    it alone would leave the others waiting for its gradients. jax leaves a comparison with a type
    that it does not know to the other operand, which is this one.
    """

    def __init__(self, value: float, group: ProcessGroup) -> None:
        """Compare with the mean over the ranks of `group`."""
        self._value = float(value)
        self._group = group

    def __bool__(self) -> bool:
        """Whether there is a threshold."""
        return bool(self._value)

    def __lt__(self, divergence: jax.Array) -> bool:
        """Whether the mean over ranks is above; `divergence > threshold` calls this."""
        return float(self._group.all_reduce(divergence, "mean")) > self._value


class SharedDivergence:
    """Passes the mean divergence over ranks to schedules of the learning rate.

    skrl calls the schedules of policy and value with the same divergence: one collective serves
    both.
    """

    def __init__(self, group: ProcessGroup) -> None:
        """Average over the ranks of `group`."""
        self._group = group
        self._given: Any = None
        self._mean = 0.0

    def share(self, schedule: Callable[..., float]) -> Callable[..., float]:
        """Return a KL schedule that uses the mean over ranks."""

        def by_mean(timestep: int, *, lr: float, kl: float) -> float:
            if kl is not self._given:
                # float32 sums over ranks would round differently from one rank's.
                mean = self._group.all_reduce(np.array([kl], dtype=np.float64), "mean")
                self._given, self._mean = kl, float(mean[0])
            return schedule(timestep, lr=lr, kl=self._mean)

        return by_mean
