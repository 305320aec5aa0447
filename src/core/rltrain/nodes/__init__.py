"""What keeps the nodes of a run connected: for launchers and backends.

A launcher that is started on each node (`LauncherSpec.starts_nodes` is False) enters
`connected_nodes` around what starts its ranks, unless it starts those of one node only
(`LauncherSpec.unsupported` has "nnodes"):

    with connected_nodes(config) as check:
        ...  # start the ranks, and wait for them; call check() every second or so

A backend whose ranks find each other at the master's address (`BackendSpec.needs_master`) lets them
`meet` first: a framework that misses one waits for many minutes, without naming it. What keeps a
node or a rank from meeting the others is said on all.

A launcher that waits for its ranks notes signals meanwhile: `caught_signals`.
"""

from rltrain.nodes.lifeline import connected_nodes
from rltrain.nodes.meeting import Member, meet
from rltrain.nodes.network import (
    NCCL_FALLBACKS,
    can_listen,
    choose_nccl_interface,
    hold_port,
    interface_towards,
    interfaces,
    is_loopback,
    reachable_address,
)
from rltrain.ranks.signals import CaughtSignals, caught_signals

__all__ = [
    "NCCL_FALLBACKS",
    "CaughtSignals",
    "Member",
    "can_listen",
    "caught_signals",
    "choose_nccl_interface",
    "connected_nodes",
    "hold_port",
    "interface_towards",
    "interfaces",
    "is_loopback",
    "meet",
    "reachable_address",
]
