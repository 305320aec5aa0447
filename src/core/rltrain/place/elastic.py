"""Nodes that come and go: what `--nnodes MIN:MAX` needs, and what follows from it."""

from __future__ import annotations

import dataclasses

from rltrain.config import checks
from rltrain.config.checks import flag
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions

_MEET = "the nodes meet at --rdzv-endpoint, and are numbered anew each time"
_CHANGES = "the number of ranks changes during the run. Instead:"
_FIXED = {
    **dict.fromkeys(("node_rank", "master_addr", "master_port"), _MEET),
    "total_envs": f"{_CHANGES} --num-envs",
    "scale_iterations": f"{_CHANGES} --max-iterations",
}
"""Options that have no meaning while nodes come and go, and why."""


def settle_nodes(requested: RunOptions) -> RunOptions:
    """Check the options of a range of nodes, and return them with what the range implies."""
    if requested.min_nodes is None:
        return requested
    typed, usual = f"--nnodes {requested.nnodes}", RunOptions()
    for name, reason in _FIXED.items():
        if getattr(requested, name) != getattr(usual, name):
            raise UsageError(f"{flag(name)} and {typed}: {reason}. Leave it out.")
    if requested.rdzv_backend not in (None, "c10d"):
        raise UsageError(
            f"--rdzv-backend {requested.rdzv_backend} and {typed}: nodes come and go with c10d "
            "only. Give --rdzv-backend c10d."
        )
    for name, metavar, meaning in (
        ("rdzv_endpoint", "HOST:PORT", "where the nodes meet; that node must stay"),
        ("rdzv_id", "ID", "the run's name, the same on every node"),
    ):
        if getattr(requested, name) is None:
            raise UsageError(f"{typed}: add {flag(name)} {metavar}, {meaning}.")
    checks.endpoint("rdzv_endpoint", requested.rdzv_endpoint)
    if requested.max_restarts == 0:
        raise UsageError(
            f"{typed}: add --max-restarts N. The ranks of other nodes fail when a node is lost, "
            "and each time counts as one restart of theirs."
        )
    return dataclasses.replace(
        requested,
        rdzv_backend="c10d",
        auto_resume=True,
        run_name=requested.run_name or requested.rdzv_id,
    )
