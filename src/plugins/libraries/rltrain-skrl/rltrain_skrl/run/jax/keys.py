"""The keys that models and noises of skrl sample with: one per rank, saved with its state.

skrl gives every model and noise the key of its configuration, which is the same on all ranks, and
counts the samples. Only this file uses the private names of key and counter;
`tests/test_skrl_jax_contract.py` checks them against the installed version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from skrl import config

KEYED = ("_g", "_c", "_mc", "")
"""Prefixes of `_key` and `_i` in a Gaussian, categorical and multi-categorical policy, and in a
noise."""


class KeyCounter:
    """A key and a counter under the names that skrl's noises have for them."""

    def __init__(self) -> None:
        """Start with the key of skrl's configuration."""
        self._key = config.jax.key
        self._i = 0

    def next(self) -> tuple[jax.Array, int]:
        """Return the key, and the number to fold into it for the next sample."""
        self._i += 1
        return self._key, self._i


def keyed(parts: Iterable[Any]) -> list[tuple[Any, str, str]]:
    """Return the parts that have a key, each with the names of its key and its counter."""
    names = [(part, f"{prefix}_key", f"{prefix}_i") for part in parts for prefix in KEYED]
    return [(part, key, count) for part, key, count in names if hasattr(part, key)]


def set_keys(parts: Iterable[Any], key: jax.Array) -> None:
    """Give every part that has a key another one, derived from this key."""
    for index, (part, name, _) in enumerate(keyed(parts)):
        setattr(part, name, jax.random.fold_in(key, index))


def get_keys(parts: Iterable[Any]) -> list[tuple[np.ndarray, int]]:
    """Return the keys and counters, on the host."""
    return [
        (np.asarray(getattr(part, key)), int(getattr(part, count)))
        for part, key, count in keyed(parts)
    ]


def load_keys(
    parts: Iterable[Any], states: Iterable[tuple[np.ndarray, int]], device: jax.Device
) -> None:
    """Restore what `get_keys` returned."""
    for (part, key, count), (array, sampled) in zip(keyed(parts), states, strict=True):
        setattr(part, key, jax.device_put(array, device))
        setattr(part, count, sampled)


@contextlib.contextmanager
def folded_key(model: Any, batch: jax.Array) -> Iterator[None]:
    """Fold a hash of the batch into a policy's key; otherwise jit bakes the noise in.

    Every update has another batch, and so other noise. The same batch gives the same noise.
    """
    ((_, key, count),) = keyed([model])
    before = getattr(model, key), getattr(model, count)
    setattr(model, key, jax.random.fold_in(before[0], _hash(batch)))
    setattr(model, count, 0)
    try:
        yield
    finally:
        setattr(model, key, before[0])
        setattr(model, count, before[1])


def _hash(x: jax.Array) -> jax.Array:
    return jnp.sum(lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32), dtype=jnp.uint32)
