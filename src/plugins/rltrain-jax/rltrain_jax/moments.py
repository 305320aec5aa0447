"""Moments of data pooled over ranks: what every normaliser of a jax library is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from rltrain.types import ProcessGroup
from rltrain_jax.compat import enable_x64

__all__ = ["Moments", "pool_moments"]


@dataclass(frozen=True)
class Moments:
    """The moments of one batch over all ranks, in float64."""

    count: float
    """Rows on all ranks."""
    mean: np.ndarray
    """Shape (*shape)."""
    variance: np.ndarray
    """Mean square distance from the mean (not Bessel's estimate), shape (*shape)."""


def pool_moments(
    group: ProcessGroup, batches: Sequence[tuple[jax.Array, jax.Array]]
) -> list[Moments]:
    """Return the moments of several batches over all ranks, in one collective.

    Sums are taken in float64 about a reference near the data, not about zero, where a variance that
    is small against the mean would be lost in rounding. They are taken on the device, and averaged
    on the host: a process whose jax knows 32 bits only goes on so.

    Args:
        group: the process group.
        batches: pairs of this rank's data, shape (B, *shape), and the reference, shape (*shape),
            which must be equal on all ranks: the running mean. B may differ from rank to rank, and
            may be 0 on some.

    Returns:
        The moments of each batch, equal on all ranks.
    """
    with enable_x64(True):
        packed = np.asarray(_sums(list(batches)))
    pooled = group.all_reduce(packed, "sum") if group.world_size > 1 else packed
    ends = np.cumsum([1 + 2 * about.size for _, about in batches])
    parts = np.split(np.asarray(pooled), ends[:-1])
    return [
        _moments(sums, np.asarray(about)) for sums, (_, about) in zip(parts, batches, strict=True)
    ]


@jax.jit
def _sums(batches: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """Return count, sum and sum of squares of the distances of each batch, one after the other."""
    parts = []
    for data, about in batches:
        distance = data.astype(jnp.float64) - about.astype(jnp.float64)
        count = jnp.full((1,), data.shape[0], jnp.float64)
        parts += [count, distance.sum(0).ravel(), jnp.square(distance).sum(0).ravel()]
    return jnp.concatenate(parts)


def _moments(sums: np.ndarray, about: np.ndarray) -> Moments:
    count = float(sums[0])
    first, second = np.split(sums[1:] / count, 2)
    variance = np.maximum(second - np.square(first), 0.0)
    mean = about.astype(np.float64) + first.reshape(about.shape)
    return Moments(count, mean, variance.reshape(about.shape))
