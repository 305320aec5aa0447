"""A threshold on a mean over ranks, so that all ranks decide the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rltrain.types import ProcessGroup

__all__ = ["SharedThreshold"]


class SharedThreshold(float):
    """A number that compares with the mean of a tensor over ranks; each comparison is collective.

    skrl ends an epoch when a mini-batch's KL divergence is above `kl_threshold`. A rank that ended
    it alone would leave the others waiting for its gradients. torch calls `__torch_function__` of
    either operand of a comparison, which lets this one average first.
    """

    group: ProcessGroup

    def __new__(cls, value: float, group: ProcessGroup) -> SharedThreshold:
        """Compare with the mean over the ranks of `group`."""
        threshold = super().__new__(cls, value)
        threshold.group = group
        return threshold

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compare with the mean over ranks."""
        group = next(x.group for x in args if isinstance(x, cls))
        shared = [
            group.all_reduce(x, "mean") if isinstance(x, torch.Tensor) else float(x) for x in args
        ]
        return func(*shared, **(kwargs or {}))
