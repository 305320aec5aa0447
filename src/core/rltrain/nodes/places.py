"""Who a node or a rank is, for those that wait for it, and where they meet."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from pathlib import Path

from rltrain.config import Placement
from rltrain.launch import say
from rltrain.nodes import meeting
from rltrain.nodes.lifeline import connected
from rltrain.nodes.messages import Member
from rltrain.terminal import one_line
from rltrain.types import World

_PATIENCE = {"node": 15.0, "rank": 60.0}
"""Seconds in which the others are told: all of a job start at about the same time, and ranks import
their framework before they meet."""


def connected_nodes(config: Placement, reports: Path) -> contextlib.AbstractContextManager[None]:
    """Let the launchers of all nodes meet, and stay connected inside the context. Collective.

    For `Launcher.launch`: a node that fails, or that nobody hears of any more, ends the run on all
    nodes, and each says which one it was. On one node it does nothing.

    Args:
        config: where the run runs.
        reports: the folder in which this node's ranks report, which outlives the context.

    Raises:
        UsageError: a node is missing, or differs from node 0.
        RankFailed: another node failed, or was lost.
    """
    if config.nnodes == 1:
        return contextlib.nullcontext()
    facts = {
        "rltrain": importlib.metadata.version("rltrain"),
        "--framework": config.framework,
        "--backend": config.backend,
        "--launcher": str(config.launcher),
    }
    node = Member("node", config.node_rank, config.nnodes, facts)
    return connected(node, config.master_addr, config.master_port, config.join_timeout, reports)


def refuse(config: Placement, world: World | None, words: str) -> None:
    """Tell those who wait for a node, or a rank, why it does not start.

    For `LauncherSpec.refuse`, if the launcher enters `connected_nodes`, and `BackendSpec.refuse`,
    if ranks `meet` at the master's address.

    Args:
        config: where the run runs.
        world: the rank's place; None for a node.
        words: why.
    """
    if world is None:
        if config.nnodes == 1:
            return
        member = Member("node", config.node_rank, config.nnodes)
    else:
        # torchrun's agent, whose own store listens at the address, ends the others.
        if world.world_size == 1 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            return
        member = Member("rank", world.rank, world.world_size)
    patience = _PATIENCE[member.kind]
    if member.number == 0:
        say(f"{one_line(words)}\nThe others are told so, for up to {patience:g} s.")
    meeting.refuse(member, config.master_addr, config.master_port, words, patience)
