"""Ranks, or the launchers of several nodes, connect to number 0 before a framework starts.

A framework that misses a rank waits for many minutes or aborts, without naming the missing one. So
number 0 first listens at the address that the framework will use, and waits for all others; only
then does the framework listen there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import socket
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import wait
from typing import cast

from rltrain.config import Placement, endpoint
from rltrain.errors import UsageError
from rltrain.launch import begin_meeting, say
from rltrain.nodes.line import Line, Member
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
    if member.number == 0:
        return _wait_for_all(member, host, port, timeout)
    return [_join(member, host, port, timeout)]


def refuse(config: Placement, world: World | None, words: str) -> None:
    """Let those that wait for a node, or a rank, know why it does not start.

    For `LauncherSpec.refuse`, if the launcher enters `connected_nodes`, and `BackendSpec.refuse`,
    if ranks `meet` at the master's address.

    Args:
        config: where the run runs.
        world: the rank's place; None for a node.
        words: why.
    """
    # torchrun's agent, whose own store listens at the address, ends the other ranks.
    if world is not None and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return
    member = node_of(config) if world is None else Member("rank", world.rank, world.world_size)
    if member.count == 1:
        return
    where = config.master_addr, config.master_port, _PATIENCE[member.kind]
    words = f"{member.title} does not start: {words[:_WORDS]}"
    with contextlib.suppress(UsageError):
        if member.number == 0:
            say(f"{one_line(words)}\nThe others are informed, for up to {where[2]:g} s.")
            _wait_for_all(member, *where, refused=words)
        else:
            _join(member, *where, refused=words)


def _wait_for_all(
    member: Member, host: str, port: int, timeout: float, refused: str = ""
) -> list[Line]:
    """Wait for all others on number 0, and send each of them the outcome.

    `refused` says why number 0 itself does not start, if so.
    """
    failed, absent = refused, set(range(1, member.count))
    lines: dict[socket.socket, Line] = {}
    deadline, waiting = time.monotonic() + timeout, _Waiting(timeout)
    not_met = functools.partial(_not_met, member, host, port)
    with _listening(member, host, port) as server:
        try:
            while absent and (left := deadline - time.monotonic()) > 0:
                for ready in wait([server, *lines], min(left, 1.0)):
                    if ready is server:
                        connection, _ = server.accept()
                        lines[connection] = Line(connection)
                        continue
                    line = lines[cast(socket.socket, ready)]
                    try:
                        line.read()
                        wrong = _introduce(line, member, absent, not_met)
                    except (OSError, ValueError):  # A stray connection, or a member that has gone.
                        del lines[line.connection]
                        line.close()
                        if line.other is not None and not failed:
                            absent.add(line.other.number)
                        continue
                    if line.other is not None:
                        absent.discard(line.other.number)
                    if wrong and not failed:
                        failed, deadline = wrong, min(deadline, time.monotonic() + _LINGER)
                    if failed:
                        _announce(lines, failed=failed)
                if text := waiting.due(_some(member, absent)):
                    say(text)
                    if member.kind == "node":  # One line from a thousand ranks is enough.
                        _announce(lines, waits=text)
            if absent and not failed:
                what = f"{_some(member, absent).capitalize()} did not arrive within {timeout:g} s"
                failed = not_met(f"{what} (--join-timeout).")
                _announce(lines, failed=failed)
            if failed:
                raise UsageError(plain(failed))
            _announce(lines, host=member.host)
        except BaseException:
            for line in lines.values():
                line.close()
            raise
    return [line for line in lines.values() if line.other is not None]


def _announce(lines: Mapping[socket.socket, Line], **outcome: str) -> None:
    """Send all members the outcome, or for whom number 0 still waits."""
    for line in lines.values():
        if line.other is not None:
            line.send(**outcome)


def _introduce(line: Line, member: Member, absent: set[int], not_met: Callable[[str], str]) -> str:
    """Learn who has connected, and return why they cannot meet; "" if they can."""
    for hello in line.messages():
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
        if refused:
            return refused
        differs = [name for name, value in member.facts.items() if facts.get(name) != value]
        if (kind, count) != (member.kind, member.count):
            wrong = f"{other.title} is one of {count}, and {member} is one of {member.count}."
        elif number not in absent:
            wrong = f"Two {kind}s have the number {number}; the second is {host}."
        elif differs:
            theirs, ours = (str(each.facts.get(differs[0])) for each in (other, member))
            wrong = f"{other.title} has {differs[0]} {theirs}, and {member} has {ours}."
        else:
            continue
        return not_met(wrong)
    return ""


def _join(member: Member, host: str, port: int, timeout: float, refused: str = "") -> Line:
    """Connect to number 0, and wait for the outcome."""
    deadline, waiting = time.monotonic() + timeout, _Waiting(timeout)
    error: Exception | None = None
    while (left := deadline - time.monotonic()) > 0:
        if text := waiting.due(f"{member.kind} 0 at {endpoint(host, port)}"):
            say(f"{text}: {error}")
        with contextlib.ExitStack() as closing:
            try:
                line = Line(socket.create_connection((host, port), min(left, _SLACK)))
                closing.callback(line.close)
                line.connection.settimeout(timeout + _SLACK)
                line.send(**vars(member), refused=refused)
                line.other = Member(member.kind, 0, member.count, host=_outcome(line))
                closing.pop_all()
                return line
            except (OSError, ValueError) as failed:  # Not there yet, or another program is.
                error = failed
        time.sleep(_RETRY)
    what = f"{member.kind.capitalize()} 0 did not answer within {timeout:g} s (--join-timeout)"
    raise UsageError(_not_met(member, host, port, f"{what}: {error}."))


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


class _Waiting:
    """Knows when to report who is missing."""

    def __init__(self, timeout: float) -> None:
        self._began, self._next, self._timeout = time.monotonic(), _FIRST, timeout

    def due(self, what: str) -> str:
        """Return a line, if it is time for one; else ""."""
        waited = time.monotonic() - self._began
        if waited < self._next:
            return ""
        self._next = (waited // _THEN + 1) * _THEN
        return f"waiting for {what} ({waited:.0f} s of {self._timeout:g}, --join-timeout)"


def _some(member: Member, numbers: set[int]) -> str:
    """Return the names of some members."""
    some = ", ".join(map(str, sorted(numbers)[:100])) + (", ..." if len(numbers) > 100 else "")
    return f"{member.kind}{'s' if len(numbers) > 1 else ''} {some} of {member.count}"


def _not_met(member: Member, host: str, port: int, what: str) -> str:
    hint = _CHECK
    if member.kind == "node" and is_loopback(host):
        hint = f"On each node {host} is the node itself: give node 0's address. {_CHECK}"
    elif member.number == 0 and not can_listen(host, 0):
        hint = f"{host} is no address of {member.host}: is another {member.kind} number 0? {_CHECK}"
    where = endpoint(host, port)
    return f"The {member.kind}s did not find each other at {where}. {what} {hint}"


def _listening(member: Member, host: str, port: int) -> socket.socket:
    """Listen on the loopback interface if the host is that, otherwise on every interface."""
    try:
        if is_loopback(host):
            address = (host if ":" in host else "127.0.0.1", port)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server(address, family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        what = f"{member.kind.capitalize()} 0 cannot listen there: {error}."
        raise UsageError(_not_met(member, host, port, what)) from error
