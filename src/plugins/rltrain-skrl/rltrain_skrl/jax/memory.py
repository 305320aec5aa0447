"""The memories: what goes in and what is drawn is one compiled call; moments are pooled at once."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from skrl.memories.jax import RandomMemory

from rltrain_jax.moments import Moments
from rltrain_skrl.jax.moment_pool import MomentPool
from rltrain_skrl.jax.scaler import PooledScaler, Unscaled

__all__ = ["PooledMemory", "RolloutMemory"]


class PooledMemory(RandomMemory):
    """skrl's memory, in which a step of all environments is stored in place.

    skrl copies each of its tensors to change a row of it. The scalers of what is drawn from it wait
    for other ranks once for each draw.

    Attributes:
        scalers: by the name of a tensor in the memory, the scaler that it may train.
    """

    # skrl's, used by this class and those below.
    tensors: dict[str, jax.Array]
    memory_size: int
    memory_index: int
    num_envs: int
    filled: bool

    def __init__(self, *, pool: MomentPool, **options: Any) -> None:
        """Make an empty memory.

        Args:
            pool: the one of the scalers.
            options: skrl's own.
        """
        super().__init__(**options)
        self._pool = pool
        self.scalers: dict[str, PooledScaler] = {}

    def add_samples(self, **samples: jax.Array | None) -> None:
        """Store a step of every environment, tensors of shape (N, D); see skrl."""
        row = {name: x for name, x in samples.items() if x is not None and name in self.tensors}
        kept = {name: self.tensors[name] for name in row}
        self.tensors.update(_store(kept, row, self.memory_index))
        self.memory_index += 1
        if self.memory_index >= self.memory_size:
            self.memory_index, self.filled = 0, True

    def sample_by_index(
        self, names: list[str], *, indexes: Any, mini_batches: int = 1
    ) -> list[list[jax.Array | None]]:
        """Return mini-batches of rows; see skrl."""
        cuts = np.array_split(np.asarray(indexes, dtype=np.int32), mini_batches)
        scaled = [name for name in names if name in self.scalers]
        first = self._rows(scaled, cuts)
        self._expect(scaled, first)
        # Only now: what is left of a rollout may have been standardised together with the first.
        rest = self._rows([name for name in names if name not in self.scalers], cuts)
        return [
            [(left | right).get(name) for name in names]
            for left, right in zip(first, rest, strict=True)
        ]

    def _rows(self, names: list[str], cuts: list[np.ndarray]) -> list[dict[str, jax.Array]]:
        """Return by name the rows of each mini-batch, of the tensors that there are."""
        held = {name: self.tensors[name] for name in names if name in self.tensors}
        rows: list[dict[str, jax.Array]] = _draw(held, cuts)
        return rows

    def _expect(self, names: list[str], batches: list[dict[str, jax.Array]]) -> None:
        if self._pool.group.world_size > 1:
            means = {name: self.scalers[name].running_mean for name in names}
            self._pool.expect([(x, means[name]) for batch in batches for name, x in batch.items()])


@functools.partial(jax.jit, donate_argnums=0)
def _store(
    tensors: dict[str, jax.Array], row: dict[str, jax.Array], index: int
) -> dict[str, jax.Array]:
    return {name: x.at[index].set(row[name].astype(x.dtype)) for name, x in tensors.items()}


@jax.jit
def _draw(tensors: dict[str, jax.Array], cuts: list[jax.Array]) -> list[dict[str, jax.Array]]:
    flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in tensors.items()}
    return [{name: x[rows] for name, x in flat.items()} for rows in cuts]


class RolloutMemory(PooledMemory):
    """The memory of an agent that learns from rollouts.

    Values, returns and advantages are standardised over all ranks, in one collective together with
    what the first epoch is going to meet.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._unscaled: dict[str, Unscaled] = {}
        self._raw: jax.Array | None = None

    def set_tensor_by_name(self, name: str, tensor: jax.Array | Unscaled) -> None:
        """Set a tensor, shape (T, N, D); see skrl.

        Its agents set, in this order: values and returns, standardised if they have a scaler; then
        advantages, which they have standardised over this rank's rollout.
        """
        if isinstance(tensor, Unscaled):
            self._unscaled[name] = tensor
            tensor = tensor.data
        super().set_tensor_by_name(name, tensor)
        if name == "advantages" and self._pool.group.world_size > 1:
            # What skrl standardised. It is told only by what it is taken from and added to.
            self._raw = (self.tensors["returns"] - self.tensors["values"]).reshape(-1, 1)

    def _expect(self, names: list[str], batches: list[dict[str, jax.Array]]) -> None:
        super()._expect(names, batches)
        if self._raw is None:
            return
        waiting = [(x.rows, x.scaler.running_mean) for x in self._unscaled.values()]
        about = jnp.zeros(1, self._raw.dtype)
        *pooled, advantages = self._pool.pool([*waiting, (self._raw, about)])
        for (name, unscaled), moments in zip(self._unscaled.items(), pooled, strict=True):
            unscaled.scaler.merge(moments)
            scaled = PooledScaler.__call__(unscaled.scaler, unscaled.data)
            super().set_tensor_by_name(name, scaled)
        self._restandardise(np.asarray(self._raw, dtype=np.float64), advantages)
        self._unscaled, self._raw = {}, None

    def _restandardise(self, raw: np.ndarray, over_ranks: Moments) -> None:
        """Standardise the advantages over all ranks instead of this one, as skrl does.

        It is done from the standardised ones, by the moments of the others: a difference of returns
        and values has lost digits, which its moments hardly miss.
        """
        spread = raw.std() + 1e-8
        spread_over_ranks = np.sqrt(over_ranks.variance) + 1e-8
        shift = (raw.mean() - over_ranks.mean) / spread_over_ranks
        super().set_tensor_by_name(
            "advantages",
            _rescaled(
                self.tensors["advantages"],
                (spread / spread_over_ranks).astype(np.float32),
                shift.astype(np.float32),
            ),
        )


@jax.jit
def _rescaled(x: jax.Array, factor: jax.Array, shift: jax.Array) -> jax.Array:
    return x * factor + shift
