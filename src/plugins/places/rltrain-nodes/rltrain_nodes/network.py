"""The interfaces of this machine, and those that lead to the master."""

from __future__ import annotations

import fcntl
import functools
import ipaddress
import os
import socket
import struct
from pathlib import Path

from rltrain.launch import address_towards, own_address

__all__ = [
    "interface_towards",
    "interfaces",
    "is_loopback",
    "network_of_gloo",
    "network_of_nccl",
    "reachable_address",
]

_SIOCGIFADDR = 0x8915
"""Linux's ioctl for an interface's IPv4 address; see netdevice(7)."""


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


def _network(variable: str, host: str, num_nodes: int) -> str:
    """Say by which interface ranks reach each other; "" if it is not known.

    Args:
        variable: names the one that the user chooses.
        host: where all of them meet.
        num_nodes: on how many machines they are.
    """
    if os.environ.get(variable):
        return f"as {variable}={os.environ[variable]} says"
    found = interface_towards(host, num_nodes) if host else None
    return f"by {found}, which leads to {host} ({variable} names another)" if found else ""


network_of_gloo = functools.partial(_network, "GLOO_SOCKET_IFNAME")
"""For `BackendSpec.network`."""
network_of_nccl = functools.partial(_network, "NCCL_SOCKET_IFNAME")
