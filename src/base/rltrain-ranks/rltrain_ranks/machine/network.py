"""The addresses of this machine, and the names of others."""

from __future__ import annotations

import socket
import sys
import time

from rltrain_files.errors import UsageError

__all__ = ["address_towards", "own_address", "wait_for_host"]


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
