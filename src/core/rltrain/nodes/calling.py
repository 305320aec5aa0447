"""What all but number 0 do while members meet: they call number 0, and say for whom they wait."""

from __future__ import annotations

import socket
import time

from rltrain.config import endpoint
from rltrain.launch import say
from rltrain.nodes import messages
from rltrain.nodes.callers import ANSWER_TIMEOUT

_RETRY = 0.2
"""Seconds between two attempts to reach number 0."""

_FIRST, _THEN = 10.0, 60.0
"""Seconds after which it is said for the first time, and seconds between two times afterwards."""


class NoAnswer(Exception):
    """Number 0 did not answer in time; the text says what has answered, or what failed."""


def call(
    member: messages.Member, host: str, port: int, timeout: float, refuses: str = ""
) -> tuple[socket.socket, messages.Answer]:
    """Connect to number 0, and return the open connection with what it says of the meeting.

    `refuses` says why this member does not take part; it is "" if it does.
    """
    deadline = time.monotonic() + timeout
    failed: Exception | None = None
    waiting = Waiting(timeout)
    while (left := deadline - time.monotonic()) > 0:
        if line := waiting.due(f"{member.kind} 0 at {endpoint(host, port)}"):
            say(f"{line}: {failed}")
        try:
            connection = socket.create_connection((host, port), min(left, ANSWER_TIMEOUT))
        except OSError as error:
            failed = error
            time.sleep(_RETRY)
            continue
        hello = messages.Hello(member, refuses)
        try:
            patience = min(left, ANSWER_TIMEOUT)
            return connection, _introduced(connection, hello, patience, timeout)
        except messages.BadMessage:
            failed = ValueError("another program answers there")
        except (OSError, EOFError) as error:
            failed = error
        connection.close()
        time.sleep(_RETRY)
    raise NoAnswer(str(failed))


def _introduced(
    connection: socket.socket, hello: messages.Hello, patience: float, timeout: float
) -> messages.Answer:
    """Introduce this member to whoever is there, and return what it answers at last.

    Number 0 answers at once, now and then while it waits, and when all are there. It may have
    started later than this one, so from its first answer on it has the timeout.
    """
    connection.sendall(messages.pack_hello(hello))

    def answer(seconds: float) -> messages.Answer:
        return messages.parse_answer(messages.receive_line(connection, seconds))

    found = answer(patience)
    if found.wrong or found.refuses:
        return found
    deadline = time.monotonic() + timeout + ANSWER_TIMEOUT
    while (found := answer(max(deadline - time.monotonic(), 0.001))).waits:
        say(found.waits)
    return found


class Waiting:
    """Knows when to say for whom one waits, and for how long already."""

    def __init__(self, timeout: float) -> None:
        """Begin to wait, for so many seconds at most."""
        self._began, self._next, self._timeout = time.monotonic(), _FIRST, timeout

    def due(self, what: str) -> str:
        """Return a line, if it is time for one; else ""."""
        waited = time.monotonic() - self._began
        if waited < self._next:
            return ""
        self._next = (waited // _THEN + 1) * _THEN
        return f"waiting for {what} ({waited:.0f} s of {self._timeout:g}, --join-timeout)"
