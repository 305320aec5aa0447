"""KL divergences by which all ranks decide alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from rltrain.types import ProcessGroup

__all__ = ["SharedDivergence", "SharedThreshold"]


class SharedThreshold:
    """A number; an array that is compared with it counts with its mean over all ranks.

    skrl leaves an epoch where a mini-batch's KL divergence is above `kl_threshold`: a rank that did
    so by its own would leave the others waiting for its gradients. jax leaves a comparison with
    what it does not know to the other side, so that this one can take part in it. Collective, in
    every comparison.
    """

    def __init__(self, value: float, group: ProcessGroup) -> None:
        """Make a threshold for the mean over the ranks of `group`."""
        self._value = float(value)
        self._group = group

    def __bool__(self) -> bool:
        """Whether there is a threshold at all."""
        return bool(self._value)

    def __lt__(self, divergence: jax.Array) -> bool:
        """Whether the mean over ranks is above; `divergence > threshold` asks this."""
        return float(self._group.all_reduce(divergence, "mean")) > self._value


class SharedDivergence:
    """Gives schedules of the learning rate the mean of the divergence over ranks.

    skrl asks one schedule after the other, with the same number: one collective serves both.
    """

    def __init__(self, group: ProcessGroup) -> None:
        """Average over the ranks of `group`."""
        self._group = group
        self._given: Any = None
        self._mean = 0.0

    def shared(self, schedule: Callable[..., float]) -> Callable[..., float]:
        """Return a KL schedule that decides by the mean over ranks."""

        def by_mean(timestep: int, *, lr: float, kl: float) -> float:
            if kl is not self._given:
                # In float64: sums of the ranks' own in float32 would round in another way.
                mean = self._group.all_reduce(np.array([kl], dtype=np.float64), "mean")
                self._given, self._mean = kl, float(mean[0])
            return schedule(timestep, lr=lr, kl=self._mean)

        return by_mean
