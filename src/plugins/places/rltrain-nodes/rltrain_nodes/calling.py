"""What all but number 0 do while members meet: they call number 0, until it answers."""

from __future__ import annotations

import secrets
import socket
import sys
import time
from collections.abc import Callable

from rltrain.config import endpoint
from rltrain.launch import SECRET, say
from rltrain_nodes.callers import ANSWER_TIMEOUT
from rltrain_nodes.messages import (
    Answer,
    BadMessage,
    Hello,
    Member,
    Unproven,
    pack_hello,
    parse_answer,
    parse_challenge,
)
from rltrain_nodes.waiting import Waiting
from rltrain_nodes.wire import receive_line

__all__ = ["NoAnswer", "call"]

_RETRY = 0.2
"""Seconds between two attempts to reach number 0."""

_RETRY_STRANGER = 2.0
"""The same, if another run answered there."""


class NoAnswer(Exception):
    """Number 0 did not answer in time; the text says what has answered, or what failed."""


def call(
    member: Member, host: str, port: int, timeout: float, key: bytes, refuses: str = ""
) -> tuple[socket.socket, Answer]:
    """Connect to number 0, and return the open connection with what it says of the meeting.

    Args:
        member: this one.
        host: of number 0.
        port: on that host.
        timeout: in seconds.
        key: the run's.
        refuses: why this one does not take part; "" if it does.

    Raises:
        NoAnswer: nobody of this run was there in time.
    """
    deadline = time.monotonic() + timeout
    failed: Exception | None = None
    told = False
    waiting = Waiting(timeout)
    while (left := deadline - time.monotonic()) > 0:
        pause = _RETRY
        if line := waiting.due(f"{member.kind} 0 at {endpoint(host, port)}"):
            say(f"{line}: {failed}")
        try:
            connection = socket.create_connection((host, port), min(left, ANSWER_TIMEOUT))
        except OSError as error:
            failed = error
            time.sleep(pause)
            continue
        hello = Hello(member, secrets.token_hex(32), refuses)
        try:
            return connection, _introduced(
                connection, hello, key, min(left, ANSWER_TIMEOUT), timeout
            )
        except Unproven:
            failed = ValueError(
                f"another run answers there, or {SECRET} or --rdzv-id is not the same on all nodes"
            )
            if not told:
                print(f"{endpoint(host, port)}: {failed}", file=sys.stderr, flush=True)
            told, pause = True, _RETRY_STRANGER
        except BadMessage:
            failed = ValueError("another program answers there")
        except (OSError, EOFError) as error:
            failed = error
        connection.close()
        time.sleep(pause)
    raise NoAnswer(str(failed))


def _introduced(
    connection: socket.socket, hello: Hello, key: bytes, patience: float, timeout: float
) -> Answer:
    """Introduce this member to whoever is there, and return what it answers.

    Number 0 answers at once, now and then while it waits, and when all are there. It may have
    started later than this one, so from its first answer on it has the timeout.
    """
    challenge = parse_challenge(receive_line(connection, patience))
    connection.sendall(pack_hello(key, challenge, hello))

    def answer(seconds: float) -> Answer:
        return parse_answer(key, hello.nonce, receive_line(connection, seconds))

    first = answer(patience)
    return first if first.wrong or first.refuses else _last(answer, timeout + ANSWER_TIMEOUT)


def _last(answer: Callable[[float], Answer], patience: float) -> Answer:
    """Return number 0's last answer, and say for whom it waits until then."""
    deadline = time.monotonic() + patience
    while True:
        found = answer(max(deadline - time.monotonic(), 0.001))
        if not found.waits:
            return found
        say(found.waits)
