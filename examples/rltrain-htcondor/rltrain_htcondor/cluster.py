"""A node's place in an HTCondor job, by its environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.clusters import StartedNode, read_numbers, shown
from rltrain.errors import UsageError

__all__ = ["find"]

NAMES = ("_CONDOR_PROCNO", "_CONDOR_NPROCS")
"""Which node this is, from 0, and how many there are; see HTCondor's manual, "parallel
applications". Nothing says the address of node 0: `--master-addr` does."""


def find(environ: Mapping[str, str]) -> StartedNode | None:
    """Return this node's place; None if HTCondor has not started it as one of several.

    Raises:
        UsageError: the variables are no numbers, or contradict each other.
    """
    if not environ.get(NAMES[1]):
        return None
    node, nodes = read_numbers(environ, *NAMES)
    if nodes <= 1:
        return None
    if node >= nodes:
        raise UsageError(
            f"The environment variables contradict each other: {shown(environ, NAMES)}. Unset or "
            "correct them."
        )
    return StartedNode(node_rank=node, num_nodes=nodes, variables=NAMES)
