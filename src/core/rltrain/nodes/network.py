"""The network of this machine: its interfaces and ports, and by which of them ranks connect."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, MutableMapping

from rltrain.ranks.folders import shared_folder
from rltrain.ranks.machine import address_towards, own_address
from rltrain.types import World

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


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address, which means this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reachable_address(host: str, num_nodes: int) -> str | None:
    """Return the address at which other ranks reach this machine, given where all of them meet.

    On several nodes this is no loopback address, which node 0 may find for its own name: Debian
    writes "127.0.1.1 NAME" to /etc/hosts.
    """
    own = address_towards(host)
    if num_nodes > 1 and (own is None or is_loopback(own)):
        return own_address() or own
    return own


def interfaces() -> dict[str, list[str]]:
    """Return the IP addresses of each interface by its name."""
    import psutil

    ip = (socket.AF_INET, socket.AF_INET6)
    return {
        name: [each.address.partition("%")[0] for each in found if each.family in ip]
        for name, found in psutil.net_if_addrs().items()
    }


def interface_towards(host: str, num_nodes: int = 1) -> str | None:
    """Return the name of the interface at which other ranks reach this machine; None if unknown.

    `host` is where all of them meet, `num_nodes` the number of machines.
    """
    address = reachable_address(host, num_nodes)
    found = next((name for name, own in interfaces().items() if address in own), None)
    return found or ("lo" if address is not None and address.startswith("127.") else None)


def choose_nccl_interface(environ: MutableMapping[str, str], world: World, host: str) -> None:
    """Make NCCL listen where the other ranks of the run are, unless the user has decided.

    By itself it takes the first interface that is up, which may be that of a container's bridge.
    Where there is InfiniBand, NCCL still sends what it reduces over that. `host` is where all ranks
    meet.
    """
    if shared_folder(world) is not None:
        # NCCL would listen on a network that others reach, although it sends nothing by it.
        environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    elif world.num_nodes > 1 and (interface := interface_towards(host, world.num_nodes)):
        # NCCL takes a name without "=" for the beginning of several.
        environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")


def can_listen(host: str, port: int) -> bool:
    """Return whether a host's address is one of this machine's, and the port is free there."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError:
        return False
    return True


def hold_port() -> socket.socket:
    """Return a socket that reserves a free port on the loopback interface until it is closed.

    Linux gives the port of a socket that is bound but does not listen only to sockets with
    SO_REUSEADDR. Servers set it, those of jax and torch too.
    """
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    # After `bind`: two runs that both bind with reuse may get the same port.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder
