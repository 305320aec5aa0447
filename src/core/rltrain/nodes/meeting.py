"""Ranks, or the launchers of several nodes, connect to number 0 before a framework starts.

A framework that misses a rank waits for many minutes or aborts, without naming the missing one. So
number 0 first listens at the address that the framework will use, and waits for all others; only
then does the framework listen there. Each line that they send is a JSON object.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, cast

from rltrain.config import Placement, endpoint
from rltrain.errors import UsageError
from rltrain.launch import say
from rltrain.nodes.network import can_listen, is_loopback
from rltrain.terminal import one_line, plain
from rltrain.types import World

_RETRY = 0.2
"""Seconds between two attempts to reach number 0."""

_SLACK = 5.0
"""Seconds for what should come at once."""

_FIRST, _THEN = 10.0, 60.0
"""Seconds until the first report of who is missing, and between later ones."""

_LINGER = 3.0
"""Seconds for which number 0 still answers after the meeting has failed: others may be late."""

_PATIENCE = {"node": 15.0, "rank": 60.0}
"""Seconds for which a member that refuses to start waits for the others. The nodes of a job start
at about the same time; ranks import their framework before they meet."""

_WORDS = 2000
"""Length, in characters, to which its reason is cut."""

_CHECK = (
    "Check --nnodes, --node-rank, --nproc-per-node, --master-addr and --master-port on every node."
)

_LONGEST = 1 << 20
"""Most bytes of a line."""

_meetings = 0


def begin_meeting() -> None:
    """Note that this process begins to meet the others of a run, or has met them."""
    global _meetings
    _meetings += 1


def meetings() -> int:
    """Return how many meetings this process has begun: the others hear of its failures."""
    return _meetings


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


def node_of(config: Placement) -> Member:
    """Return this node, and what must be the same on all nodes."""
    facts = {
        "rltrain": importlib.metadata.version("rltrain"),
        "--framework": config.framework,
        "--backend": config.backend,
        "--launcher": str(config.launcher),
    }
    return Member("node", config.node_rank, config.nnodes, facts)


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
    for line in gather(member, host, port, timeout):
        line.close()


def gather(member: Member, host: str, port: int, timeout: float) -> list[Line]:
    """Meet as in `meet`, and return the open connections.

    Number 0 gets one to each of the others, and each of those the one to number 0.
    """
    begin_meeting()
    return _Meeting(member, host, port, timeout).hold()


def refuse(config: Placement, world: World | None, words: str) -> None:
    """Let those that wait for a node, or a rank, know why it does not start.

    `world` is the rank's place; None for a node.
    """
    # torchrun's agent, whose own store listens at the address, ends the other ranks.
    if world is not None and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return
    member = node_of(config) if world is None else Member("rank", world.rank, world.world_size)
    if member.count == 1:
        return
    patience = _PATIENCE[member.kind]
    words = f"{member.title} does not start: {words[:_WORDS]}"
    if member.number == 0:
        say(f"{one_line(words)}\nThe others are informed, for up to {patience:g} s.")
    with contextlib.suppress(UsageError):
        _Meeting(member, config.master_addr, config.master_port, patience, words).hold()


class _Meeting:
    """Where and how long a member waits for the others; `refused` says why it does not start."""

    def __init__(
        self, member: Member, host: str, port: int, timeout: float, refused: str = ""
    ) -> None:
        self._member, self._host, self._port = member, host, port
        self._timeout, self._failed = timeout, refused
        self._began, self._next = time.monotonic(), _FIRST
        self._deadline = self._began + timeout
        self._lines: dict[socket.socket, Line] = {}
        self._absent = set(range(1, member.count))

    def hold(self) -> list[Line]:
        """Meet, and return the open connections."""
        return self._wait_for_all() if self._member.number == 0 else [self._join()]

    def _wait_for_all(self) -> list[Line]:
        """Wait for all others on number 0, and send each of them the outcome."""
        with self._listening() as server:
            try:
                while self._absent and (left := self._deadline - time.monotonic()) > 0:
                    for ready in wait([server, *self._lines], min(left, 1.0)):
                        if ready is server:
                            connection, _ = server.accept()
                            self._lines[connection] = Line(connection)
                        else:
                            self._hear(self._lines[cast(socket.socket, ready)])
                    if text := self._waits(self._some()):
                        say(text)
                        if self._member.kind == "node":  # One line of a thousand ranks is enough.
                            self._announce(waits=text)
                if self._absent and not self._failed:
                    what = f"{self._some().capitalize()} did not arrive within {self._timeout:g} s"
                    self._failed = self._not_met(f"{what} (--join-timeout).")
                    self._announce(failed=self._failed)
                if self._failed:
                    raise UsageError(plain(self._failed))
                self._announce(host=self._member.host)
            except BaseException:
                for line in self._lines.values():
                    line.close()
                raise
        return [line for line in self._lines.values() if line.other is not None]

    def _hear(self, line: Line) -> None:
        """Take what has come: a member introduces itself, once."""
        try:
            line.read()
            for hello in line.messages():
                wrong = self._introduce(line, hello)
                if wrong and not self._failed:
                    self._failed = wrong
                    self._deadline = min(self._deadline, time.monotonic() + _LINGER)
                if self._failed:
                    self._announce(failed=self._failed)
        except (OSError, ValueError):  # A stray connection, or a member that has gone.
            del self._lines[line.connection]
            line.close()
            if line.other is not None and not self._failed:
                self._absent.add(line.other.number)

    def _introduce(self, line: Line, hello: Mapping[str, Any]) -> str:
        """Learn who has connected; return why the meeting has failed with it, "" if it has not."""
        member = self._member
        match hello:
            case {
                "kind": str(kind),
                "number": int(number),
                "count": int(count),
                "facts": dict(facts),
                "host": str(host),
                "refused": str(refused),
            }:
                other = line.other = Member(kind, number, count, facts, host)
            case _:
                raise ValueError("it does not say who it is")
        is_second = number not in self._absent
        self._absent.discard(number)
        if refused:
            return refused
        if (kind, count) != (member.kind, member.count):
            wrong = f"{other.title} is one of {count}, and {member} is one of {member.count}."
            return self._not_met(wrong)
        if is_second:
            return self._not_met(f"Two {kind}s have the number {number}; the second is {host}.")
        for name, ours in member.facts.items():
            if (theirs := facts.get(name)) != ours:
                wrong = f"{other.title} has {name} {theirs}, and {member} has {ours}."
                return self._not_met(wrong)
        return ""

    def _announce(self, **outcome: str) -> None:
        """Send all members the outcome, or for whom number 0 still waits."""
        for line in self._lines.values():
            if line.other is not None:
                line.send(**outcome)

    def _join(self) -> Line:
        """Connect to number 0, and wait for the outcome."""
        member = self._member
        error: Exception | None = None
        what = f"{member.kind} 0 at {endpoint(self._host, self._port)}"
        while (left := self._deadline - time.monotonic()) > 0:
            if text := self._waits(what):
                say(f"{text}: {error}")
            with contextlib.ExitStack() as closing:
                try:
                    address = self._host, self._port
                    line = Line(socket.create_connection(address, min(left, _SLACK)))
                    closing.callback(line.close)
                    line.connection.settimeout(self._timeout + _SLACK)
                    line.send(**vars(member), refused=self._failed)
                    line.other = Member(member.kind, 0, member.count, host=_outcome(line))
                    closing.pop_all()
                    return line
                except (OSError, ValueError) as failed:  # Not there yet, or another program is.
                    error = failed
            time.sleep(_RETRY)
        within = f"within {self._timeout:g} s (--join-timeout)"
        what = f"{member.kind.capitalize()} 0 did not answer {within}: {error}."
        raise UsageError(self._not_met(what))

    def _waits(self, what: str) -> str:
        """Return a line on who is missing, if it is time for one; else ""."""
        waited = time.monotonic() - self._began
        if waited < self._next:
            return ""
        self._next = (waited // _THEN + 1) * _THEN
        return f"waiting for {what} ({waited:.0f} s of {self._timeout:g}, --join-timeout)"

    def _some(self) -> str:
        """Return the names of those that are absent."""
        numbers, kind = sorted(self._absent), self._member.kind
        some = ", ".join(map(str, numbers[:100])) + (", ..." if len(numbers) > 100 else "")
        return f"{kind}{'s' if len(numbers) > 1 else ''} {some} of {self._member.count}"

    def _not_met(self, what: str) -> str:
        member, host, hint = self._member, self._host, _CHECK
        if member.kind == "node" and is_loopback(host):
            hint = f"On each node {host} is the node itself: give node 0's address. {_CHECK}"
        elif member.number == 0 and not can_listen(host, 0):
            another = f"is another {member.kind} number 0?"
            hint = f"{host} is no address of {member.host}: {another} {_CHECK}"
        where = endpoint(host, self._port)
        return f"The {member.kind}s did not find each other at {where}. {what} {hint}"

    def _listening(self) -> socket.socket:
        """Listen on the loopback interface if the host is that, otherwise on every interface."""
        host, port, v6 = self._host, self._port, socket.AF_INET6
        try:
            if is_loopback(host):
                is_v6 = ":" in host
                address = (host if is_v6 else "127.0.0.1", port)
                return socket.create_server(address, family=v6 if is_v6 else socket.AF_INET)
            if socket.has_dualstack_ipv6():
                return socket.create_server(("", port), family=v6, dualstack_ipv6=True)
            return socket.create_server(("", port))
        except OSError as error:
            what = f"{self._member.kind.capitalize()} 0 cannot listen there: {error}."
            raise UsageError(self._not_met(what)) from error


def _outcome(line: Line) -> str:
    """Wait until number 0 has met all, and return its host."""
    while True:
        line.read()
        for message in line.messages():
            match message:
                case {"waits": str(text)}:
                    say(plain(text))
                case {"failed": str(text)}:
                    raise UsageError(plain(text))
                case {"host": str(host)}:
                    return host
                case _:
                    raise ValueError("another program answers there")
