"""Pooled moments of torch tensors, as skrl's statistics need them."""

from __future__ import annotations

import torch

from rltrain_torch.moments import Moments, pool_moments

__all__ = ["Moments", "pool_moments", "unbiased_variance"]


def unbiased_variance(moments: Moments) -> torch.Tensor:
    """Return the variance with Bessel's correction, as `torch.var` does."""
    return moments.variance * moments.count / (moments.count - 1)
