"""What a cluster's environment variables say of this process.

A cluster is whatever started it: torchrun, mpirun, a scheduler. `ClusterSpec.find` returns one of
the two classes below, or None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from rltrain.errors import UsageError
from rltrain.types import World

__all__ = [
    "StartedNode",
    "StartedRank",
    "number_or_none",
    "read_numbers",
    "read_port",
    "read_rank",
    "shown",
]


@dataclass(frozen=True, kw_only=True)
class StartedRank:
    """This process is one of the run's ranks: the cluster has started all of them."""

    world: World
    variables: tuple[str, ...]
    """Names of the environment variables that say so."""
    master_addr: str | None = None
    """Address of rank 0's node; None if the cluster does not say."""
    master_port: int | None = None
    """A port that is free there and the same for every rank; None for the default."""


@dataclass(frozen=True, kw_only=True)
class StartedNode:
    """This process is the only one on its node: it is to start the node's ranks."""

    node_rank: int
    num_nodes: int | None
    """None if the cluster does not say."""
    variables: tuple[str, ...]
    """Names of the environment variables that say so."""
    nproc_per_node: int | None = None
    """Ranks to start on each node; None if the cluster does not say."""
    master_addr: str | None = None
    """Address of node 0; None if the cluster does not say."""
    master_port: int | None = None
    """Port on node 0; None for the default."""


def read_numbers(environ: Mapping[str, str], *names: str) -> tuple[int, ...]:
    """Return variables that must all be numbers from 0 on.

    Raises:
        UsageError: one is missing, is not a number, or is negative.
    """
    with contextlib.suppress(KeyError, ValueError):
        numbers = tuple(int(environ[name]) for name in names)
        if min(numbers, default=0) >= 0:
            return numbers
    raise UsageError(
        f"The environment variables {shown(environ, names)} are not valid rank numbers. "
        "Unset or correct them."
    )


def read_rank(
    environ: Mapping[str, str],
    *,
    rank: str,
    local_rank: str,
    world_size: str,
    local_world_size: str,
    node_rank: str = "",
    num_nodes: str = "",
) -> World:
    """Return a rank's place from the variables with these names.

    The last three may be missing: then all ranks are on one node, or fill the nodes in order.

    Raises:
        UsageError: they are not numbers, or contradict each other.
    """
    given = (rank, local_rank, world_size)
    number, local, size = read_numbers(environ, *given)
    optional = [name for name in (local_world_size, node_rank, num_nodes) if environ.get(name)]
    found = dict(zip(optional, read_numbers(environ, *optional), strict=True))
    here = found.get(local_world_size, size)
    if not (0 <= number < size and 0 <= local < here <= size):
        names = (*given, local_world_size) if local_world_size in found else given
        raise UsageError(
            f"The environment variables contradict each other: {shown(environ, names)}. Unset or "
            "correct them."
        )
    node = found.get(node_rank, number // here)
    return World(number, local, node, size, here, found.get(num_nodes, -(-size // here)))


def read_port(environ: Mapping[str, str], *names: str) -> int | None:
    """Return the first of these variables that is set; None if none is.

    Raises:
        UsageError: it is no port.
    """
    name = next((name for name in names if environ.get(name)), None)
    if name is None:
        return None
    port = number_or_none(environ[name])
    if port is None or not 1 <= port <= 65535:
        raise UsageError(f"{shown(environ, (name,))}: is no port from 1 to 65535. Correct it.")
    return port


def number_or_none(text: str | None) -> int | None:
    """Return a number that may be missing, or be a word such as "gpu"."""
    return int(text) if text and text.isdecimal() else None


def shown(environ: Mapping[str, str], names: tuple[str, ...] | list[str]) -> str:
    """Return variables as the user would set them, for a message."""
    return ", ".join(
        f"{name}={environ[name]}" if name in environ else f"{name} (not set)" for name in names
    )
