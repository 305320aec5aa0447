"""Pytrees: packed into vectors, broadcast from rank 0, and checked for divergence."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rltrain.session import Session
from rltrain.types import ProcessGroup

__all__ = ["broadcast_tree", "fingerprints", "watch_tree"]

Form = tuple[tuple[tuple[int, ...], str], ...]
"""Shape and name of the dtype of each leaf."""


def form(leaves: Sequence[Any]) -> Form:
    """Return the shapes and dtypes that `unpack` needs."""
    return tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


# Compiled at module level, so that all trees of the same form share the compiled code.


@jax.jit
def pack(leaves: Sequence[jax.Array]) -> list[jax.Array]:
    """Return one vector for each dtype, in the order in which dtypes appear."""
    by_dtype: dict[str, list[jax.Array]] = {}
    for leaf in leaves:
        by_dtype.setdefault(str(leaf.dtype), []).append(leaf.ravel())
    return [jnp.concatenate(parts) for parts in by_dtype.values()]


@functools.partial(jax.jit, static_argnames="form")
def unpack(vectors: Sequence[jax.Array], form: Form) -> list[jax.Array]:
    """Return the leaves that `pack` made vectors of."""
    by_dtype = dict(zip(dict.fromkeys(dtype for _, dtype in form), vectors, strict=True))
    taken = dict.fromkeys(by_dtype, 0)
    leaves = []
    for shape, dtype in form:
        begin, end = taken[dtype], taken[dtype] + math.prod(shape)
        leaves.append(by_dtype[dtype][begin:end].reshape(shape))
        taken[dtype] = end
    return leaves


def broadcast_tree(group: ProcessGroup, tree: Any, device: jax.Device) -> Any:
    """Return rank 0's pytree, with one collective for each dtype. Collective.

    Args:
        group: the process group.
        tree: of arrays, with the same structure, shapes and dtypes on every rank.
        device: of the returned arrays; see `rltrain_jax.devices.local_device`.

    Returns:
        A tree of the same structure, shapes and dtypes, equal on all ranks.
    """
    leaves, structure = jax.tree.flatten(jax.device_put(tree, device))
    if group.world_size > 1 and leaves:
        leaves = unpack([group.broadcast(vector) for vector in pack(leaves)], form(leaves))
    return jax.tree.unflatten(structure, leaves)


def fingerprints(tree: Any) -> Mapping[str, int]:
    """Return a checksum of each leaf's bytes by its path, such as `['params']['kernel']`.

    For arrays on a GPU only the checksums are copied to the host, all at once.

    Args:
        tree: a pytree of arrays or numbers.
    """
    named, _ = jax.tree_util.tree_flatten_with_path(tree)
    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in named}
    remote = {name: leaf for name, leaf in leaves.items() if _is_on_accelerator(leaf)}
    sums = device_checksums([*remote.values()]).tolist() if remote else []
    found = dict(zip(remote, sums, strict=True))
    return {
        name: found[name] if name in found else zlib.crc32(np.asarray(leaf).tobytes())
        for name, leaf in leaves.items()
    }


@jax.jit
def device_checksums(leaves: Sequence[jax.Array]) -> jax.Array:
    """Return a checksum of each leaf's bits on its own device, uint32 of shape (leaves,).

    Each number's bits are mixed with its index by invertible steps modulo 2**32, so that a change
    of one number always changes the sum. A sum of integers does not depend on the device's order.
    """
    sums = []
    for leaf in leaves:
        flat = leaf.ravel()
        wide = flat.astype(jnp.uint8) if flat.dtype == bool else flat
        width = min(8 * wide.dtype.itemsize, 32)
        bits = jax.lax.bitcast_convert_type(wide, f"uint{width}").ravel().astype(jnp.uint32)
        mixed = bits + jnp.arange(1, len(bits) + 1, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
        for factor in (0x85EBCA6B, 0xC2B2AE35):  # MurmurHash3's.
            mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(factor)
        sums.append((mixed ^ (mixed >> 16)).sum(dtype=jnp.uint32))
    return jnp.stack(sums) if sums else jnp.zeros(0, jnp.uint32)


def watch_tree(session: Session, role: str, get_tree: Callable[[], Any]) -> None:
    """Register a pytree with the divergence check.

    Args:
        session: this rank's side of the run.
        role: its name in the message. For the parameters of a model the one with which they were
            wrapped, "policy" say: by it the kits find them.
        get_tree: returns the current tree: arrays of jax are immutable, so a step makes another
            tree.
    """
    session.watch(role, _WatchedTree(get_tree))


@dataclass(frozen=True)
class _WatchedTree:
    """The fingerprints of a tree, and the tree itself for those who need it."""

    get_tree: Callable[[], Any]

    def __call__(self) -> Mapping[str, int]:
        return fingerprints(self.get_tree())


def _is_on_accelerator(leaf: Any) -> bool:
    """Whether a leaf is on a device other than the CPU."""
    return isinstance(leaf, jax.Array) and all(x.platform != "cpu" for x in leaf.devices())
