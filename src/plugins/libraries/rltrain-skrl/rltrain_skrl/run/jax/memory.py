"""The memories for jax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rltrain_jax.moments import Moments
from rltrain_skrl.run import memory
from rltrain_skrl.run.jax.workarounds import InPlaceMemory


class PooledMemory(memory.PooledMemory, InPlaceMemory):
    """skrl's memory for jax, sampled by one compiled call; see `run/memory.py`."""

    def _rows(self, names: list[str], indexes: Any, mini_batches: int) -> list[memory.Rows]:
        tensors = {name: self.tensors[name] for name in names if name in self.tensors}
        cuts = np.array_split(np.asarray(indexes, dtype=np.int32), mini_batches)
        rows: list[memory.Rows] = _select(tensors, cuts)
        return rows


@jax.jit
def _select(tensors: dict[str, jax.Array], cuts: list[jax.Array]) -> list[dict[str, jax.Array]]:
    flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in tensors.items()}
    return [{name: x[rows] for name, x in flat.items()} for rows in cuts]


class RolloutMemory(memory.RolloutMemory, PooledMemory):
    """The memory for jax of an agent that learns from rollouts."""

    def _zero(self) -> jax.Array:
        return jnp.zeros(1, self._raw.dtype)

    def _over_ranks(self, raw: jax.Array, moments: Moments) -> jax.Array:
        on_host = np.asarray(raw, dtype=np.float64)
        std = on_host.std() + 1e-8
        std_over_ranks = np.sqrt(moments.variance) + 1e-8
        shift = (on_host.mean() - moments.mean) / std_over_ranks
        scaled: jax.Array = _rescale(
            self.tensors["advantages"],
            (std / std_over_ranks).astype(np.float32),
            shift.astype(np.float32),
        )
        return scaled


@jax.jit
def _rescale(x: jax.Array, factor: jax.Array, shift: jax.Array) -> jax.Array:
    return x * factor + shift


class ReplayMemory(memory.ReplayMemory, PooledMemory):
    """The replay buffer for jax of one rank."""

    # skrl's, used by this class.
    device: jax.Device

    def _to_host(self, tensor: jax.Array, steps: int) -> np.ndarray:
        return np.array(tensor)[:steps]

    def _fill(self, name: str, held: np.ndarray) -> None:
        whole = np.array(self.tensors[name])
        whole[: len(held)] = held
        self.tensors[name] = jax.device_put(whole, self.device)
