"""Addresses of this machine, as seen from the coordinator's."""

from __future__ import annotations

import ipaddress
import socket

__all__ = ["address_towards", "endpoint", "is_loopback"]


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


def endpoint(host: str, port: str) -> str:
    """Return "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address, which means this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
