"""The KL divergence of all ranks, where skrl decides by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from skrl.resources.schedulers.torch import KLAdaptiveLR

from rltrain.types import ProcessGroup
from rltrain_torch.late_mean import LateMean


class SharedThreshold(float):
    """skrl's `kl_threshold` on several ranks.

    skrl ends an epoch when a mini-batch's KL divergence is above it. A rank that ended it alone
    would leave the others waiting for its gradients, so a comparison is collective. torch calls
    `__torch_function__` of either operand of a comparison, which lets this one average first.

    Attributes:
        group: the ranks.
        compared: if it is a list, gets what is compared: then skrl compares even if there is no
            threshold, with the result that the divergence is below.
    """

    group: ProcessGroup
    compared: list[torch.Tensor] | None = None

    def __new__(cls, value: float, group: ProcessGroup) -> SharedThreshold:
        """Compare with the mean over the ranks of `group`."""
        threshold = super().__new__(cls, value)
        threshold.group = group
        return threshold

    def __bool__(self) -> bool:
        """Whether skrl compares."""
        return self.compared is not None or self != 0.0

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compare a divergence with the threshold."""
        divergence, threshold = args
        value = float(threshold)
        if value:
            divergence = threshold.group.all_reduce(divergence, "mean")
        if threshold.compared is not None:
            threshold.compared.append(divergence)
        return func(divergence, value, **(kwargs or {})) if value else False


class PooledSchedule:
    """skrl's adaptive learning rate by the mean KL divergence over all ranks.

    skrl averages the divergence of an epoch in a collective of its own if it knows the schedule's
    class. Only the next step needs the learning rate: the divergence is averaged together with its
    gradients.

    Attributes:
        divergence: that of this rank, until it is averaged.
    """

    def __init__(self, schedule: KLAdaptiveLR, threshold: SharedThreshold) -> None:
        """Adapt the learning rate by what has been compared with the threshold."""
        self._schedule = schedule
        self._compared: list[torch.Tensor] = []
        threshold.compared = self._compared
        self.divergence = LateMean(threshold.group, schedule.step)

    def step(self) -> None:
        """End an epoch; see skrl."""
        self.divergence.put(torch.stack(self._compared).mean())
        self._compared.clear()

    def get_last_lr(self) -> list[float]:
        """Return the learning rate, before the divergence that waits; see skrl."""
        rates: list[float] = self._schedule.get_last_lr()
        return rates
