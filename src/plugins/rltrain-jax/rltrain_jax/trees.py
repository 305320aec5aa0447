"""Pytrees: as a few vectors, as rank 0 has them, and under the divergence check."""

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

__all__ = ["Form", "apart", "broadcast_tree", "fingerprints", "form", "joined", "watch_tree"]

Form = tuple[tuple[tuple[int, ...], str], ...]
"""Shape and name of the dtype of each leaf."""


def form(leaves: Sequence[Any]) -> Form:
    """Return what `apart` needs to know of leaves."""
    return tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


# Compiled at module level: all trees of the same form share what is compiled.


@jax.jit
def joined(leaves: Sequence[jax.Array]) -> list[jax.Array]:
    """Return one vector for each dtype, in the order in which dtypes appear."""
    by_dtype: dict[str, list[jax.Array]] = {}
    for leaf in leaves:
        by_dtype.setdefault(str(leaf.dtype), []).append(leaf.ravel())
    return [jnp.concatenate(parts) for parts in by_dtype.values()]


@functools.partial(jax.jit, static_argnames="form")
def apart(vectors: Sequence[jax.Array], form: Form) -> list[jax.Array]:
    """Return the leaves that `joined` made vectors of."""
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
        device: where the arrays are to be.
    """
    leaves, structure = jax.tree.flatten(jax.device_put(tree, device))
    if group.world_size > 1 and leaves:
        leaves = apart([group.broadcast(vector) for vector in joined(leaves)], form(leaves))
    return jax.tree.unflatten(structure, leaves)


def fingerprints(tree: Any) -> Mapping[str, int]:
    """Return a checksum of each leaf's bytes by its path, such as "['params']['kernel']".

    Args:
        tree: a pytree of arrays or numbers; they are copied to the host, all at once.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(tree))
    return {jax.tree_util.keystr(path): _checksum(leaf) for path, leaf in leaves}


def watch_tree(session: Session, role: str, get_tree: Callable[[], Any]) -> None:
    """Register a pytree with the divergence check.

    Args:
        session: this rank's side of the run.
        role: its name in the message: "policy", "optimizer".
        get_tree: returns the tree as it is now: jax's arrays never change, so that a step leaves
            another tree.
    """
    session.watch(role, _WatchedTree(get_tree))


@dataclass(frozen=True)
class _WatchedTree:
    """The fingerprints of a tree; what looks for the tree itself finds it too."""

    get_tree: Callable[[], Any]

    def __call__(self) -> Mapping[str, int]:
        return fingerprints(self.get_tree())


def _checksum(leaf: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(leaf).tobytes())
