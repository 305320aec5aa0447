"""The addresses and interfaces of this machine, and those that lead to the master."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import sys
import time
from pathlib import Path

from rltrain.errors import UsageError

__all__ = [
    "address_towards",
    "interface_of",
    "interface_towards",
    "interfaces",
    "is_loopback",
    "own_address",
    "reachable_address",
    "wait_for_host",
]

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
