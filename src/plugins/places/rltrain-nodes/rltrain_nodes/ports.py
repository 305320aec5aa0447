"""Ports of this machine, and connections that must not be waited for."""

from __future__ import annotations

import socket

__all__ = ["can_listen", "end_when_silent", "hold_port"]

_SILENCE = 5, 4, 3
"""Seconds until a silent connection is probed, seconds between probes, and unanswered probes until
it is given up: a cut link or a stopped machine is noticed within 17 s."""


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
