"""What a cluster's environment variables say of this process.

A cluster is what started it: torchrun, mpirun, a scheduler. `ClusterSpec.find` returns one of
the two classes below, or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rltrain.errors import UsageError
from rltrain.ranks.world import read_numbers, read_rank, shown
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
