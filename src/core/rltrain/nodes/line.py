"""A connection between two nodes, or two ranks: each line is a JSON object."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_LONGEST = 1 << 20
"""Most bytes of a line."""


@dataclass(frozen=True)
class Member:
    """One of those that meet."""

    kind: str
    """What it is, for messages: "rank" or "node"."""
    number: int
    count: int
    """How many must meet."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What must be the same for all, by its name in messages."""
    host: str = field(default_factory=socket.gethostname)

    def __str__(self) -> str:
        return f"{self.kind} {self.number} ({self.host})"

    @property
    def title(self) -> str:
        """Its name, to begin a sentence."""
        return f"{self.kind.capitalize()} {self.number} ({self.host})"


class Line:
    """An open connection; `other` is the member at its other end, once that is known."""

    def __init__(self, connection: socket.socket, other: Member | None = None) -> None:
        self.connection, self.other = connection, other
        self.heard = time.monotonic()
        self.has_ended = False
        """Whether the other node's ranks have ended well."""
        self._received = b""

    def send(self, **message: Any) -> None:
        """Send a message. That the connection is lost shows when it is read."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> None:
        """Receive what has come.

        Raises:
            OSError: the connection is lost, or was closed.
            ValueError: this is no connection of ours.
        """
        received = self.connection.recv(1 << 16)
        if not received:
            raise ConnectionResetError("the connection was closed")
        self.heard = time.monotonic()
        self._received += received
        if len(self._received) > _LONGEST:
            raise ValueError("another program is at the other end")

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the whole messages among what was read."""
        while b"\n" in self._received:
            line, _, self._received = self._received.partition(b"\n")
            yield parse(line)

    def end(self, how: int = socket.SHUT_WR) -> None:
        """Send nothing more; by default, the connection still receives."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def parse(line: bytes) -> dict[str, Any]:
    """Return a message, or raise ValueError: whoever reaches the port can send anything."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ValueError("another program is at the other end")
    return message
