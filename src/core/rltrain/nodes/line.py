"""What the launchers of two nodes tell each other, from their meeting to the end of the run."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from dataclasses import dataclass

from rltrain.nodes.messages import (
    BadMessage,
    Member,
    parse_json,
    printable_text,
    receive_line,
    send,
)
from rltrain.nodes.network import end_when_silent

_MESSAGE_TIMEOUT = 30.0
"""Seconds in which a message that has begun must end."""


class Refused(str):
    """Why a node failed, if it has refused what its user asked for."""

    __slots__ = ()


@dataclass(frozen=True)
class Said:
    """A rank has shown this to the user of its node."""

    text: str


def parse_message(line: bytes) -> str | Said | None:
    """Return what a launcher says after the meeting.

    A text is why its node failed; None means that its ranks have ended well.
    """
    message = parse_json(line)
    if message is None:
        return None
    if isinstance(message, str):
        return printable_text(message)
    if isinstance(message, dict):
        if set(message) == {"say"}:
            return Said(printable_text(message["say"]))
        if set(message) == {"refused"}:
            return Refused(printable_text(message["refused"]))
    raise BadMessage("it is no message")


class Line:
    """An open connection to another node's launcher.

    Attributes:
        connection: to it.
        other: who that is.
        ended: whether its ranks have ended well.
        over: whether nothing more will come.
        heard: when the last message came.
        left: whether it is not waited for any more.
    """

    def __init__(self, connection: socket.socket, other: Member) -> None:
        self.connection, self.other = connection, other
        self.ended = self.over = self.left = False
        self.heard = time.monotonic()
        self._told = False
        self._sending = threading.Lock()
        connection.settimeout(None)
        end_when_silent(connection)

    def hear(self) -> str | None:
        """Take the next message, and return which node failed and why, if one did."""
        try:
            message = parse_message(receive_line(self.connection, _MESSAGE_TIMEOUT))
            self.heard = time.monotonic()
            return self._take(message)
        except (ConnectionError, EOFError):
            words = f"{self.other.title} is gone: its launcher was killed, or the machine stopped."
        except BadMessage as error:
            words = f"{self.other.title} does not speak rltrain's protocol: {error}."
        except OSError as error:
            words = f"{self.other.title} does not answer any more: {error.strerror or error}."
        self.over = True
        return None if self.ended or self.left else words

    def _take(self, message: str | Said | None) -> str | None:
        match message:
            case None:
                self.ended = True
            case Said(""):
                pass  # A sign of life.
            case Said(text):
                words = f"node {self.other.number} ({self.other.host}): {text}"
                print(words, file=sys.stderr, flush=True)
            case _:
                return message
        return None

    def tell(self, cause: str) -> None:
        """Say which node failed and why. Only the first cause is sent."""
        if not self._told:
            self._told = True
            self._send({"refused": cause} if isinstance(cause, Refused) else cause)

    def say(self, text: str) -> None:
        """Let node 0 show something to the user; "" is a sign of life."""
        self._send({"say": text})

    def end(self) -> None:
        """Say that this node's ranks have ended well, if no cause was told, and nothing more."""
        if not self._told:
            self._send(None)
        with self._sending, contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)

    def _send(self, message: object) -> None:
        with self._sending, contextlib.suppress(OSError):  # `hear` says so if it is lost.
            send(self.connection, message)

    def leave(self, seconds: float) -> None:
        """Wait no longer for a node that has fallen silent, although the run has ended well."""
        self.left = True
        text = f"{self.other.title} has not answered for {seconds:.0f} s: it is not waited for."
        print(text, file=sys.stderr, flush=True)
        self.cut()

    def cut(self) -> None:
        """End the connection: `hear` returns."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
