"""Count, mean and variance of data pooled over ranks, and what normalizers compute from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rltrain.types import ProcessGroup

__all__ = ["Moments", "pool_moments", "standardize"]

_LARGEST = float(torch.finfo(torch.float32).max)
"""Libraries keep running moments in float32."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and variance of one batch: tensors of float64 on the device of its data."""

    count: torch.Tensor
    """Number of rows, shape ()."""
    mean: torch.Tensor
    """Shape (*shape)."""
    variance: torch.Tensor
    """Population variance (without Bessel's correction), shape (*shape)."""

    @property
    def unbiased_variance(self) -> torch.Tensor:
        """Sample variance (with Bessel's correction) as of `torch.var`, shape (*shape)."""
        return self.variance * self.count / (self.count - 1)

    @property
    def unbiased_std(self) -> torch.Tensor:
        """Sample standard deviation as of `torch.std`, shape (*shape)."""
        return self.unbiased_variance.sqrt()

    def scale(self, factor: float) -> Moments:
        """Return the moments of the data multiplied by `factor`."""
        return Moments(self.count, self.mean * factor, self.variance * factor**2)

    def usable(self) -> Moments:
        """Return these moments, or those of no rows if float32 cannot hold them.

        Running moments that are not finite once would stay so.
        """
        fits = (self.variance + self.mean.square() <= _LARGEST).all()  # NaN does not.
        parts = (torch.where(fits, part, 0.0) for part in (self.count, self.mean, self.variance))
        return Moments(*parts)

    def merge(self, batch: Moments) -> Moments:
        """Return the moments of this data and another batch together."""
        count = self.count + batch.count
        rate = batch.count / count.clamp(min=1)
        delta = batch.mean - self.mean
        mean = self.mean + rate * delta
        spread = batch.variance - self.variance + delta * (batch.mean - mean)
        return Moments(count, mean, self.variance + rate * spread)


@torch.no_grad()
def pool_moments(
    group: ProcessGroup, batches: Sequence[tuple[torch.Tensor, torch.Tensor | None]]
) -> list[Moments]:
    """Return the moments of several batches over all ranks. One collective for all batches.

    The sums are taken in float64 around a reference close to the data. Around zero, rounding would
    destroy a variance that is small compared with the mean.

    Args:
        group: the process group.
        batches: pairs of this rank's data, shape (B, *shape), and the reference, shape (*shape),
            usually the running mean. The reference must be equal on all ranks; None means zero.
            B may differ between ranks, and may be 0 on some of them.

    Returns:
        A list with one `Moments` for each batch, in their order: objects with the fields `count`,
        `mean` and `variance`, equal on all ranks. No collective runs if there are no batches.

    Example:
        ```python
        [moments] = pool_moments(session.group, [(observations, running_mean)])
        running = running.merge(moments.usable())
        ```
    """
    if not batches:
        return []
    references = [
        data.new_zeros(data.shape[1:]) if reference is None else reference
        for data, reference in batches
    ]
    local = [
        _sums(data, reference) for (data, _), reference in zip(batches, references, strict=True)
    ]
    packed = torch.cat(local)
    pooled = group.all_reduce(packed, "sum") if group.world_size > 1 else packed
    parts = pooled.split([sums.numel() for sums in local])
    return [_moments(sums, reference) for sums, reference in zip(parts, references, strict=True)]


def standardize(x: torch.Tensor, moments: Moments, epsilon: float = 1e-8) -> torch.Tensor:
    """Return (x - mean) / (sample standard deviation + epsilon), in the dtype and shape of `x`.

    Args:
        x: shape (B, *shape).
        moments: of all ranks' data, from `pool_moments`.
        epsilon: keeps a constant from being divided by 0.
    """
    standardized: torch.Tensor = (x - moments.mean) / (moments.unbiased_std + epsilon)
    return standardized.to(x.dtype)


def _sums(data: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return count, sum and sum of squares of `data - reference`, shape (1 + 2 * numel,)."""
    delta = data.double() - reference
    count = delta.new_full((1,), data.shape[0])
    return torch.cat([count, delta.sum(0).flatten(), delta.square().sum(0).flatten()])


def _moments(sums: torch.Tensor, reference: torch.Tensor) -> Moments:
    count = sums[0]
    first, second = (sums[1:] / count).chunk(2)
    variance = (second - first.square()).clamp(min=0.0)
    mean = reference.double() + first.view_as(reference)
    return Moments(count, mean, variance.view_as(reference))
