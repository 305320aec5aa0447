"""Moments of data pooled over ranks: what every normaliser of a torch library is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rltrain.types import ProcessGroup

__all__ = ["Moments", "pool_moments"]


@dataclass(frozen=True)
class Moments:
    """The moments of one batch over all ranks, in float64."""

    count: torch.Tensor
    """Rows on all ranks, shape ()."""
    mean: torch.Tensor
    """Shape (*shape)."""
    variance: torch.Tensor
    """Mean square distance from the mean (not Bessel's estimate), shape (*shape)."""


@torch.no_grad()
def pool_moments(
    group: ProcessGroup, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> list[Moments]:
    """Return the moments of several batches over all ranks, in one collective.

    Sums are taken in float64 about a reference near the data, not about zero, where a variance that
    is small against the mean would be lost in rounding.

    Args:
        group: the process group.
        batches: pairs of this rank's data, shape (B, *shape), and the reference, shape (*shape),
            which must be equal on all ranks: the running mean. B may differ from rank to rank, and
            may be 0 on some.

    Returns:
        The moments of each batch, equal on all ranks. Without a batch, no rank is asked.
    """
    if not batches:
        return []
    local = [_sums(data, about) for data, about in batches]
    packed = torch.cat(local)
    pooled = group.all_reduce(packed, "sum") if group.world_size > 1 else packed
    parts = pooled.split([sums.numel() for sums in local])
    return [_moments(sums, about) for sums, (_, about) in zip(parts, batches, strict=True)]


def _sums(data: torch.Tensor, about: torch.Tensor) -> torch.Tensor:
    """Return count, sum and sum of squares of the distances, shape (1 + 2 * numel,)."""
    distance = data.double() - about
    count = distance.new_full((1,), data.shape[0])
    return torch.cat([count, distance.sum(0).flatten(), distance.square().sum(0).flatten()])


def _moments(sums: torch.Tensor, about: torch.Tensor) -> Moments:
    count = sums[0]
    first, second = (sums[1:] / count).chunk(2)
    variance = (second - first.square()).clamp(min=0.0)
    return Moments(count, about.double() + first.view_as(about), variance.view_as(about))
