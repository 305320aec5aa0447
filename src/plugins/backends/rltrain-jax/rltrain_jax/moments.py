"""Moments of data pooled over ranks, for the normalizers of jax libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from rltrain.types import ProcessGroup
from rltrain_jax.compat import enable_x64

__all__ = ["Moments", "merge_moments", "pool_moments"]


@dataclass(frozen=True)
class Moments:
    """The moments of data, in float64."""

    count: float
    """Rows on all ranks."""
    mean: np.ndarray
    """Shape (*shape)."""
    variance: np.ndarray
    """Biased: the mean square distance from the mean, shape (*shape)."""

    @property
    def unbiased_variance(self) -> np.ndarray:
        """The variance with Bessel's correction, shape (*shape)."""
        return self.variance * self.count / (self.count - 1)

    def usable(self) -> Moments:
        """Return these moments, or those of no rows if float32 cannot hold them.

        Running moments that are not finite once would stay so.
        """
        largest = np.finfo(np.float32).max
        if (self.variance + np.square(self.mean) <= largest).all():  # NaN is not.
            return self
        return Moments(0.0, np.zeros_like(self.mean), np.zeros_like(self.variance))


def pool_moments(
    group: ProcessGroup, batches: Sequence[tuple[jax.Array, jax.Array]]
) -> list[Moments]:
    """Return the moments of several batches over all ranks, in one collective.

    Sums are in float64 and of distances from a reference near the data: sums of the data itself
    would lose a variance that is small against the mean. The device sums and the host averages, so
    that a process without `jax_enable_x64` keeps its 32 bits elsewhere.

    Args:
        group: the process group.
        batches: pairs of this rank's data, shape (B, *shape), and a reference, shape (*shape),
            which must be equal on all ranks: the running mean. B may differ between ranks, and may
            be 0 on some.

    Returns:
        A list with one `Moments` for each batch, in their order: objects with the fields `count`,
        `mean` and `variance` on the host, equal on all ranks.

    Example:
        ```python
        [moments] = pool_moments(session.group, [(observations, running.mean)])
        running = merge_moments(running, moments.usable())
        ```
    """
    with enable_x64(True):
        packed = np.asarray(_sums(list(batches)))
    pooled = group.all_reduce(packed, "sum") if group.world_size > 1 else packed
    ends = np.cumsum([1 + 2 * about.size for _, about in batches])
    parts = np.split(np.asarray(pooled), ends[:-1])
    return [
        _moments(sums, np.asarray(about)) for sums, (_, about) in zip(parts, batches, strict=True)
    ]


def merge_moments(running: Moments, batch: Moments) -> Moments:
    """Return the moments of both sets of data together (Chan et al., 1979).

    Args:
        running: of all data so far; of none, with a count of 0 and zeros.
        batch: of data of the same shape.
    """
    delta, total = batch.mean - running.mean, running.count + batch.count
    squares = running.variance * running.count + batch.variance * batch.count
    squares += np.square(delta) * running.count * batch.count / total
    return Moments(total, running.mean + delta * batch.count / total, squares / total)


@jax.jit
def _sums(batches: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """Return count, sum and sum of squares of the distances of each batch, concatenated."""
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
