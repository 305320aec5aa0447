"""The keys from which models and noises of skrl draw: each rank's own, saved with its state.

skrl gives every model the key of its configuration when it is made, when all ranks must have the
same, and counts its draws. Inside of an update that is compiled, key and count are those of the
moment in which it was: the same noise in every update. This file is the only one that leans on the
private names of both, which `tests/test_skrl_jax_contract.py` checks against the installed version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from skrl import config

__all__ = ["KEYED", "Drawer", "draws_anew", "get_keys", "keyed", "load_keys", "set_keys"]

KEYED = ("_g", "_c", "_mc", "")
"""What stands before `_key` and `_i`: in a Gaussian, categorical and multi-categorical policy, and
in a noise."""


class Drawer:
    """What draws besides models and noises, with key and counter like a noise of skrl."""

    def __init__(self) -> None:
        """Begin with the key of skrl's configuration."""
        self._key = config.jax.key
        self._i = 0

    def next(self) -> tuple[jax.Array, int]:
        """Return the key, and the number to fold into it for the next draw."""
        self._i += 1
        return self._key, self._i


def keyed(parts: Iterable[Any]) -> list[tuple[Any, str, str]]:
    """Return, of the parts that draw, each with the names of its key and of its counter."""
    names = [(part, f"{own}_key", f"{own}_i") for part in parts for own in KEYED]
    return [(part, key, count) for part, key, count in names if hasattr(part, key)]


def set_keys(parts: Iterable[Any], key: jax.Array) -> None:
    """Give every part that draws a key of its own, made from this one."""
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
    """Let the parts go on from what `get_keys` returned."""
    for (part, key, count), (array, drawn) in zip(keyed(parts), states, strict=True):
        setattr(part, key, jax.device_put(array, device))
        setattr(part, count, drawn)


def draws_anew(model: Any) -> Callable[..., Any]:
    """Return a policy's `act` that, where it is compiled, draws by the data that it is given.

    Every update has other data, and so other noise; the same data gives the same.
    """
    stock = model.act
    ((_, key, count),) = keyed([model])

    def act(inputs: dict[str, Any], *, role: str = "", params: Any = None) -> Any:
        if params is None:
            return stock(inputs, role=role)
        before = getattr(model, key), getattr(model, count)
        setattr(model, key, jax.random.fold_in(before[0], _checksum(inputs["observations"])))
        setattr(model, count, 0)
        try:
            return stock(inputs, role=role, params=params)
        finally:
            setattr(model, key, before[0])
            setattr(model, count, before[1])

    return act


def _checksum(x: jax.Array) -> jax.Array:
    return jnp.sum(lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32), dtype=jnp.uint32)
