"""A threshold by which all ranks decide alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rltrain.types import ProcessGroup

__all__ = ["SharedThreshold"]


class SharedThreshold(float):
    """A number; a tensor that is compared with it counts with its mean over all ranks.

    skrl leaves an epoch where a mini-batch's KL divergence is above `kl_threshold`: a rank that did
    so by its own would leave the others waiting for its gradients. Torch asks the operands of a
    comparison for `__torch_function__`, so that this one can take part in it. Collective, in every
    comparison.
    """

    group: ProcessGroup

    def __new__(cls, value: float, group: ProcessGroup) -> SharedThreshold:
        """Make a threshold for the mean over the ranks of `group`."""
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
