"""What launchers and ranks send each other: lines of JSON, read strictly.

Whoever reaches the port can send anything. Each function here takes bytes, and returns data that
are safe to use and to print, or raises `BadMessage`.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field
from typing import Any

_NAME = 255
"""Longest name, in characters."""

_TEXT = 50_000
"""Longest text of several lines, in characters."""

_LONGEST = 1 << 20
"""Most bytes of a line."""

_MOST = 1 << 20
"""Most members."""

_OF_MEMBER = ("kind", "number", "count", "facts", "host")

_FACTS = 16
"""Most facts of a member."""


class BadMessage(ValueError):
    """The bytes are no message, or the wrong one."""


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


@dataclass(frozen=True)
class Hello:
    """The first message of one that connects."""

    member: Member
    refuses: str = ""
    """Why it does not take part; "" if it does."""


@dataclass(frozen=True)
class Answer:
    """What number 0 says of the meeting."""

    wrong: str
    """Why it has failed; "" if all are there."""
    host: str
    """Number 0's."""
    refuses: str = ""
    """Who does not take part, and why; then the meeting has failed, too."""
    waits: str = ""
    """For whom it still waits; then another answer follows."""


def pack_hello(hello: Hello) -> bytes:
    """Return the line of one that connects."""
    member = {name: getattr(hello.member, name) for name in _OF_MEMBER}
    return _line({"member": member, "refuses": hello.refuses})


def parse_hello(line: bytes) -> Hello:
    """Return who has connected."""
    body = _fields(line, {"member", "refuses"})
    member = body["member"]
    if not isinstance(member, dict) or set(member) != set(_OF_MEMBER):
        raise BadMessage("this is no member")
    number, count, facts = member["number"], member["count"], member["facts"]
    if type(number) is not int or type(count) is not int or not 0 < number < count <= _MOST:
        raise BadMessage("there is no such number")
    if not isinstance(facts, dict) or len(facts) > _FACTS:
        raise BadMessage("these are no facts")
    own = {printable_name(name): printable_name(value) for name, value in facts.items()}
    who = Member(printable_name(member["kind"]), number, count, own, printable_name(member["host"]))
    return Hello(who, printable_text(body["refuses"]))


def pack_answer(answer: Answer) -> bytes:
    """Return number 0's line."""
    return _line(asdict(answer))


def parse_answer(line: bytes) -> Answer:
    """Return what number 0 says."""
    body = _fields(line, {"wrong", "host", "refuses", "waits"})
    texts = {name: printable_text(body[name]) for name in ("wrong", "refuses", "waits")}
    return Answer(host=printable_name(body["host"]), **texts)


def parse_json(line: bytes) -> Any:
    """Return what a line of JSON says."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"it is not JSON: {error}") from None


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, sort_keys=True).encode() + b"\n"


def _fields(line: bytes, names: Set[str]) -> dict[str, Any]:
    message = parse_json(line)
    if not isinstance(message, dict) or set(message) != names:
        raise BadMessage(f"it has not the fields {', '.join(sorted(names))}")
    return message


def printable_name(value: Any) -> str:
    """Return a name of one line, not too long, that can be printed."""
    if not isinstance(value, str) or len(value) > _NAME or not value.isprintable():
        raise BadMessage("it has a name that cannot be printed, or is too long")
    return value


def printable_text(value: Any) -> str:
    """Return a text of several lines, in which what would control a terminal is visible."""
    if not isinstance(value, str) or len(value) > _TEXT:
        raise BadMessage("it has no text, or too much of it")
    return "".join(
        each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in value
    )


def send(connection: socket.socket, message: object) -> None:
    """Send a line of JSON."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive_line(connection: socket.socket, seconds: float) -> bytes:
    """Return the next line, which must come in so many seconds; it reads no further.

    The connection has no time-out afterwards.
    """
    deadline, line = time.monotonic() + seconds, bytearray()
    try:
        while not line.endswith(b"\n"):
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            seen = connection.recv(_LONGEST + 1 - len(line), socket.MSG_PEEK)
            if not seen:
                raise EOFError("the connection was closed")
            line += connection.recv(seen.find(b"\n") + 1 or len(seen))
            if len(line) > _LONGEST:
                raise BadMessage("the line is too long")
            if time.monotonic() > deadline:
                raise TimeoutError("timed out")
    finally:
        connection.settimeout(None)
    return bytes(line)
