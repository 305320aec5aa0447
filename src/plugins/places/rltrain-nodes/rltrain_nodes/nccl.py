"""How NCCL connects ranks: on which network, and what to try if it fails."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from rltrain.launch import shared_folder
from rltrain.types import World
from rltrain_nodes.network import interface_towards

__all__ = ["NCCL_FALLBACKS", "choose_nccl_interface"]

NCCL_FALLBACKS: tuple[Mapping[str, str], ...] = (
    {"NCCL_P2P_DISABLE": "1"},
    {"NCCL_SHM_DISABLE": "1"},
    {"NCCL_IB_DISABLE": "1"},
    {"NCCL_ALGO": "Ring"},
    {"NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"},
    {"NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_ALGO": "Ring"},
    {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"},
)
"""Sets of variables to try, in order, if NCCL fails: those of Isaac Lab's troubleshooting page,
its combinations of them, and finally sockets only."""


def choose_nccl_interface(environ: MutableMapping[str, str], world: World, host: str) -> None:
    """Make NCCL listen where the other ranks of the run are, unless the user has decided.

    By itself it takes the first interface that is up, which may be that of a container's bridge.
    Where there is InfiniBand, NCCL still sends what it reduces over that.

    Args:
        environ: the variables of this rank.
        world: its place.
        host: where all ranks meet.
    """
    if shared_folder(world) is not None:
        # NCCL would listen on a network that others reach, although it sends nothing by it.
        environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    elif world.num_nodes > 1 and (interface := interface_towards(host, world.num_nodes)):
        # NCCL takes a name without "=" for the beginning of several.
        environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
