"""The network interfaces of this machine, and the one that leads to the master."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import sys
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.launch.shared import shared_folder
from rltrain.types import World

__all__ = [
    "NCCL_FALLBACKS",
    "address_towards",
    "can_listen",
    "choose_nccl_interface",
    "end_when_silent",
    "hold_port",
    "interface_of",
    "interface_towards",
    "interfaces",
    "is_loopback",
    "own_address",
    "reachable_address",
    "wait_for_host",
]

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

_SILENCE = 5, 4, 3
"""Seconds until a silent connection is probed, seconds between probes, and unanswered probes until
it is given up: a cut link or a stopped machine is noticed within 17 s."""

_SIOCGIFADDR = 0x8915
"""Linux's ioctl for an interface's IPv4 address; see netdevice(7)."""


def wait_for_host(host: str, timeout: float) -> None:
    """Wait until this machine can resolve a host's name: a cluster's DNS may lag behind its nodes.

    Args:
        host: name or address.
        timeout: in seconds.

    Raises:
        UsageError: the name still does not resolve.
    """
    deadline, told = time.monotonic() + timeout, False
    while True:
        try:
            socket.getaddrinfo(host, None)
            return
        except OSError as error:
            text = f"{socket.gethostname()} cannot resolve {host}, where the ranks meet"
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{text}: {error}. Give its address with --master-addr, or correct the name."
                ) from error
            if not told:
                print(f"{text}; it waits up to {timeout:g} s (--join-timeout)", file=sys.stderr)
            told = True
        time.sleep(1.0)


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address, which means this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_towards(host: str) -> str | None:
    """Return the address of this machine from which a packet to `host` would come.

    It sends no packet: connecting a UDP socket only looks up the route.

    Returns:
        The address, such as "127.0.0.1" or "fd00::2"; None if there is no route.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def own_address() -> str | None:
    """Return the address from which packets leave for other networks; None without a route."""
    # Addresses of documentation (RFC 5737 and RFC 3849): nothing is there, and nothing is sent.
    return address_towards("192.0.2.1") or address_towards("2001:db8::1")


def reachable_address(host: str, num_nodes: int) -> str | None:
    """Return the address at which other ranks reach this machine, given where all of them meet.

    On several nodes this is no loopback address, which node 0 may find for its own name: Debian
    writes "127.0.1.1 NAME" to /etc/hosts.
    """
    own = address_towards(host)
    if num_nodes > 1 and (own is None or is_loopback(own)):
        return own_address() or own
    return own


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
    try:
        holder.bind(("127.0.0.1", 0))
        # After `bind`: two runs that both bind with reuse may get the same port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except BaseException:
        holder.close()
        raise
    return holder


def end_when_silent(connection: socket.socket) -> None:
    """Let an open connection fail when the other end has not answered for 17 seconds."""
    idle, interval, count = _SILENCE
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)
    # Words that are never acknowledged count as silence too.
    milliseconds = 1000 * (idle + interval * count)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)


def interfaces() -> dict[str, str | None]:
    """Return the IPv4 address of each interface by its name; None if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return {name: _ipv4(probe, name) for _, name in socket.if_nameindex()}


def interface_of(address: str | None) -> str | None:
    """Return the name of the interface with an address, such as "lo" or "eth0"; None if unknown."""
    if address is None:
        return None
    if ":" in address:
        return _with_ipv6(address)
    found = next((name for name, each in interfaces().items() if each == address), None)
    return found or ("lo" if address.startswith("127.") else None)


def interface_towards(host: str, num_nodes: int = 1) -> str | None:
    """Return the name of the interface at which other ranks reach this machine; None if unknown.

    Args:
        host: where all of them meet.
        num_nodes: on how many machines they are.
    """
    return interface_of(reachable_address(host, num_nodes))


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


def _ipv4(probe: socket.socket, interface: str) -> str | None:
    request = struct.pack("256s", interface.encode()[:15])
    try:
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24])
    except OSError:
        return None  # An interface without an IPv4 address.


def _with_ipv6(address: str) -> str | None:
    """Look an IPv6 address up in Linux's table; its columns: address, index, ..., name."""
    wanted = ipaddress.ip_address(address).packed.hex()
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return None
    return next((line.split()[5] for line in lines if line.startswith(wanted)), None)
