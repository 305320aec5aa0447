"""Ranks, or the launchers of several nodes, connect to number 0 before a framework starts.

A framework that misses a rank waits for many minutes or aborts, and says neither which one is
missing nor what to do. So number 0 first listens at the address that the framework will use, and
waits for all others; only then does the framework listen there.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

from rltrain.config import endpoint
from rltrain.errors import UsageError
from rltrain.launch import begin_meeting, say
from rltrain.nodes.callers import ANSWER_TIMEOUT, Callers
from rltrain.nodes.calling import NoAnswer, Waiting, call
from rltrain.nodes.messages import Answer, Member
from rltrain.nodes.network import can_listen, is_loopback

_SECOND_LOOK = 20.0
"""Seconds that number 0 still waits after a wrong member has come that nobody knows to be one."""

_LOOK_AFTER_REFUSAL = 3.0
"""The same after a member has said that it does not take part."""

_WORDS = 2000
"""Length, in characters, to which its reason is cut."""

_CHECK = (
    "Check --nnodes, --node-rank, --nproc-per-node, --master-addr and --master-port on every node."
)


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
    deadline = time.monotonic() + ANSWER_TIMEOUT
    for connection, _ in connections:
        if member.number == 0:
            _wait_until_closed(connection, deadline)
        connection.close()


def gather(
    member: Member, host: str, port: int, timeout: float
) -> list[tuple[socket.socket, Member]]:
    """Meet as in `meet`, and return the open connections with who is at their other end.

    Number 0 gets one to each of the others, and each of those the one to number 0.
    """
    begin_meeting()
    if member.number == 0:
        return _wait_for_all(member, host, port, timeout)
    return [_report(member, host, port, timeout)]


def _wait_for_all(
    member: Member, host: str, port: int, timeout: float
) -> list[tuple[socket.socket, Member]]:
    """Wait for all others on number 0, and send each of them the outcome."""
    deadline = time.monotonic() + timeout
    missing = set(range(1, member.count))
    wrong = refuses = ""
    waiting = Waiting(timeout)
    with _listening(member, host, port) as server, Callers(server) as callers:
        while missing and time.monotonic() < deadline:
            callers.listen(min(deadline - time.monotonic(), 1.0))
            missing |= callers.gone()
            for caller in callers.arrived():
                objection = _objection(member, caller.member, missing)
                if caller.refuses:
                    refuses = refuses or _does_not_start(caller.member, caller.refuses)
                elif not objection:
                    missing.discard(caller.member.number)
                    callers.keep(caller, Answer("", member.host))
                    continue
                callers.refuse(caller, Answer(objection, member.host, refuses))
                wrong = wrong or objection
                look = _LOOK_AFTER_REFUSAL if refuses else _SECOND_LOOK
                deadline = min(deadline, time.monotonic() + look)
            if line := waiting.due(_some(member, missing)):
                say(line)
                if member.kind == "node":  # One line from a thousand ranks is enough.
                    callers.answer_all(Answer("", member.host, waits=line))
        if missing:
            wrong = wrong or _missing(member, missing, timeout, callers.ignored)
            answer = Answer(wrong, member.host, refuses)
            callers.answer_all(answer)
            raise _outcome(member, host, port, answer)
        callers.answer_all(Answer("", member.host))
        return callers.take()


def refuse(member: Member, host: str, port: int, words: str, patience: float) -> None:
    """Tell those who wait for this member why it does not take part. Number 0 tells all that come.

    It tries for some seconds: the others may start later.
    """
    words = words[:_WORDS]
    if member.number != 0:
        with contextlib.suppress(NoAnswer):
            call(member, host, port, patience, words)[0].close()
        return
    answer = Answer("", member.host, _does_not_start(member, words))
    deadline, untold = time.monotonic() + patience, set(range(1, member.count))
    with _listening(member, host, port) as server, Callers(server) as callers:
        while untold and time.monotonic() < deadline:
            callers.listen(min(deadline - time.monotonic(), 1.0))
            for caller in callers.arrived():
                untold.discard(caller.member.number)
                callers.refuse(caller, answer)


def _does_not_start(member: Member, words: str) -> str:
    """Return a member's reason not to start, for the others."""
    return f"{member.title} does not start: {words}"


def _some(member: Member, numbers: set[int]) -> str:
    """Return the names of some members."""
    some = ", ".join(map(str, sorted(numbers)[:100])) + (", ..." if len(numbers) > 100 else "")
    return f"{member.kind}{'s' if len(numbers) > 1 else ''} {some} of {member.count}"


def _missing(member: Member, numbers: set[int], timeout: float, ignored: int) -> str:
    which = _some(member, numbers)
    others = f" {ignored} connection(s) of others were ignored." if ignored else ""
    return f"{which.capitalize()} did not arrive within {timeout:g} s (--join-timeout).{others}"


def _objection(member: Member, other: Member, missing: set[int]) -> str:
    """Return what is wrong with a member that connected; "" if nothing is."""
    if other.kind != member.kind or other.count != member.count:
        return f"{other.title} is one of {other.count}, and {member} is one of {member.count}."
    if other.number not in missing:
        return f"Two {member.kind}s have the number {other.number}; the second is {other.host}."
    for name, value in member.facts.items():
        if other.facts.get(name) != value:
            return f"{other.title} has {name} {other.facts.get(name)}, and {member} has {value}."
    return ""


def _report(member: Member, host: str, port: int, timeout: float) -> tuple[socket.socket, Member]:
    """Connect to number 0, and receive the outcome."""
    try:
        connection, answer = call(member, host, port, timeout)
    except NoAnswer as error:
        what = f"{member.kind.capitalize()} 0 did not answer within {timeout:g} s (--join-timeout)"
        raise _not_met(member, host, port, f"{what}: {error}.") from None
    if not answer.wrong and not answer.refuses:
        return connection, Member(member.kind, 0, member.count, member.facts, answer.host)
    connection.close()
    raise _outcome(member, host, port, answer)


def _outcome(member: Member, host: str, port: int, answer: Answer) -> UsageError:
    """Return the error of a meeting that has failed: who has refused something knows best."""
    return (
        UsageError(answer.refuses) if answer.refuses else _not_met(member, host, port, answer.wrong)
    )


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
        what = f"{member.kind.capitalize()} 0 cannot listen there: {error}."
        raise _not_met(member, host, port, what) from error
    with server:
        yield server


def _wait_until_closed(connection: socket.socket, deadline: float) -> None:
    """Let the other side close first; otherwise this port would stay in TIME_WAIT."""
    with contextlib.suppress(OSError):
        connection.settimeout(max(deadline - time.monotonic(), 0.01))
        connection.recv(1)
