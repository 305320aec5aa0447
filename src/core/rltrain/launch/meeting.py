"""Ranks, or the launchers of several nodes, connect to number 0 before a framework starts.

A framework that misses a rank waits for many minutes or aborts, and says neither which one is
missing nor what to do. So number 0 first listens at the address that the framework will use, and
waits for all others; only then does the framework listen there.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltrain.config import endpoint
from rltrain.errors import UsageError
from rltrain.launch.network import can_listen, is_loopback

__all__ = ["Member", "gather", "meet", "receive", "send"]

_RETRY = 0.2
"""Seconds between two attempts to reach number 0."""

_ANSWER_TIMEOUT = 5.0
"""Seconds for an answer that should come at once."""

_HELLO = 4096
"""Longest first line, in bytes, of one that connects. Other programs may send anything."""

_CHECK = (
    "Check --nnodes, --node-rank, --nproc-per-node, --master-addr and --master-port on every node."
)


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


def meet(member: Member, host: str, port: int, timeout: float) -> None:
    """Wait until all members have connected; the port is free again afterwards. Collective.

    Args:
        member: this one.
        host: of number 0.
        port: on that host.
        timeout: in seconds.

    Raises:
        UsageError: a member is missing, connected twice, or differs from number 0.
    """
    connections = gather(member, host, port, timeout)
    for connection, _ in connections:
        if member.number == 0:
            _wait_until_closed(connection)
        connection.close()


def gather(
    member: Member, host: str, port: int, timeout: float
) -> list[tuple[socket.socket, Member]]:
    """Meet as in `meet`, and return the open connections with who is at their other end.

    Number 0 gets one to each of the others, and each of those the one to number 0.
    """
    if member.number == 0:
        return _wait_for_all(member, host, port, timeout)
    return [_report(member, host, port, timeout)]


def send(connection: socket.socket, message: object) -> None:
    """Send a line of JSON."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket, longest: int = 1 << 20) -> Any:
    """Return the object of the next line; it reads no further than that line.

    Args:
        connection: to read from.
        longest: number of bytes that a line may have.

    Raises:
        ValueError: the line is too long or not JSON, or the other side has closed the connection.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        if len(line) == longest:
            raise ValueError("the line is too long")
        more = connection.recv(1)
        if not more:
            raise ValueError("the connection was closed")
        line += more
    return json.loads(line)


def _wait_for_all(
    member: Member, host: str, port: int, timeout: float
) -> list[tuple[socket.socket, Member]]:
    """Wait for all others on number 0, and send each of them the outcome."""
    deadline = time.monotonic() + timeout
    missing = set(range(1, member.count))
    found: list[tuple[socket.socket, Member]] = []
    wrong = ""
    with contextlib.ExitStack() as opened, _listening(member, host, port) as server:
        while missing and not wrong:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection = opened.enter_context(server.accept()[0])
            except TimeoutError:
                wrong = _missing(member, missing, timeout)
                break
            connection.settimeout(_ANSWER_TIMEOUT)
            try:
                other = _member(receive(connection, _HELLO))
            except (OSError, ValueError, TypeError):
                connection.close()  # Other programs may connect here.
                continue
            wrong = _objection(member, other, missing)
            missing.discard(other.number)
            found.append((connection, other))
        answer = {"wrong": wrong, "host": member.host}
        for connection, _ in found:
            with contextlib.suppress(OSError):
                send(connection, answer)
        if not wrong:
            opened.pop_all()
    if wrong:
        raise _not_met(member, host, port, wrong)
    return found


def _missing(member: Member, numbers: set[int], timeout: float) -> str:
    some = ", ".join(map(str, sorted(numbers)))
    which = f"{member.kind}{'s' if len(numbers) > 1 else ''} {some} of {member.count}"
    return f"{_first_upper(which)} did not arrive within {timeout:g} s (--join-timeout)."


def _member(hello: Any) -> Member:
    """Return who has connected.

    Raises:
        ValueError, TypeError: it is another program.
    """
    other = Member(**hello)
    if not isinstance(other.facts, dict) or not isinstance(other.number, int):
        raise TypeError(hello)
    return other


def _objection(member: Member, other: Member, missing: set[int]) -> str:
    """Return what is wrong with a member that connected; "" if nothing is."""
    if other.kind != member.kind or other.count != member.count:
        return (
            f"{_first_upper(str(other))} is one of {other.count}, and {member} is one of "
            f"{member.count}."
        )
    if other.number not in missing:
        return f"Two {member.kind}s have the number {other.number}; the second is {other.host}."
    for name, value in member.facts.items():
        if other.facts.get(name) != value:
            return (
                f"{_first_upper(str(other))} has {name} {other.facts.get(name)}, and {member} has "
                f"{value}."
            )
    return ""


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _report(member: Member, host: str, port: int, timeout: float) -> tuple[socket.socket, Member]:
    """Connect to number 0, and receive the outcome."""
    deadline = time.monotonic() + timeout
    failed: Exception | None = None
    hello = {**vars(member), "facts": dict(member.facts)}
    while time.monotonic() < deadline:
        try:
            connection = socket.create_connection((host, port), timeout=_ANSWER_TIMEOUT)
        except OSError as error:
            failed = error
            time.sleep(_RETRY)
            continue
        with contextlib.ExitStack() as opened:
            opened.enter_context(connection)
            try:
                send(connection, hello)
                # From here on number 0 has the timeout; it may have started later than this one.
                connection.settimeout(timeout + _ANSWER_TIMEOUT)
                answer = receive(connection)
                wrong, name = str(answer["wrong"]), str(answer["host"])
            except (OSError, ValueError) as error:
                failed = error
            except (TypeError, KeyError):
                failed = ValueError("another program answers there")
            else:
                if wrong:
                    raise _not_met(member, host, port, wrong)
                opened.pop_all()
                return connection, Member(member.kind, 0, member.count, member.facts, name)
        time.sleep(_RETRY)
    what = f"{_first_upper(member.kind)} 0 did not answer within {timeout:g} s (--join-timeout): "
    raise _not_met(member, host, port, f"{what}{failed}.")


def _not_met(member: Member, host: str, port: int, what: str) -> UsageError:
    where, hint = endpoint(host, port), _CHECK
    if member.kind == "node" and is_loopback(host):
        hint = f"On each node {host} is the node itself: give node 0's address. {_CHECK}"
    elif member.number == 0 and not can_listen(host, 0):
        hint = f"{host} is no address of {member.host}: is another {member.kind} number 0? {_CHECK}"
    return UsageError(f"The {member.kind}s did not find each other at {where}. {what} {hint}")


@contextlib.contextmanager
def _listening(member: Member, host: str, port: int) -> Iterator[socket.socket]:
    """Listen on the loopback interface if the host is that, otherwise on every interface."""
    try:
        if is_loopback(host):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            server = socket.create_server(
                (host if ":" in host else "127.0.0.1", port), family=family
            )
        elif socket.has_dualstack_ipv6():
            server = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            server = socket.create_server(("", port))
    except OSError as error:
        what = f"{_first_upper(member.kind)} 0 cannot listen there: {error}."
        raise _not_met(member, host, port, what) from error
    with server:
        yield server


def _wait_until_closed(connection: socket.socket) -> None:
    """Let the other side close first; otherwise this port would stay in TIME_WAIT."""
    with contextlib.suppress(OSError):
        connection.settimeout(_ANSWER_TIMEOUT)
        connection.recv(1)
