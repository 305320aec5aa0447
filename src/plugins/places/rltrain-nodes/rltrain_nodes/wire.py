"""Lines of JSON on an open connection, each with a time-out for the whole line."""

from __future__ import annotations

import json
import socket
import time

from rltrain_nodes.messages import BadMessage

__all__ = ["receive_line", "send"]


def send(connection: socket.socket, message: object) -> None:
    """Send a line of JSON."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive_line(connection: socket.socket, seconds: float, longest: int = 1 << 20) -> bytes:
    """Return the next line; it reads no further than that line.

    Args:
        connection: to read from. It has no time-out afterwards.
        seconds: in which the whole line must come.
        longest: number of bytes that a line may have.

    Raises:
        BadMessage: the line is too long.
        EOFError: the other side has closed the connection.
        TimeoutError: the line did not come in time.
    """
    deadline, line = time.monotonic() + seconds, bytearray()
    try:
        while not line.endswith(b"\n"):
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            seen = connection.recv(longest + 1 - len(line), socket.MSG_PEEK)
            if not seen:
                raise EOFError("the connection was closed")
            line += connection.recv(seen.find(b"\n") + 1 or len(seen))
            if len(line) > longest:
                raise BadMessage("the line is too long")
            if time.monotonic() > deadline:
                raise TimeoutError("timed out")
    finally:
        connection.settimeout(None)
    return bytes(line)
