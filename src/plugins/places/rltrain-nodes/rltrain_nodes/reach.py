"""Whether those that have met reach each other: ranks connect by ports that the system chooses.

A firewall that lets only the master's port through makes a framework wait for many minutes, and
none says which two machines it is between. So each machine listens on a port of the system's
choice, and all others connect to it for a moment.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.config import endpoint
from rltrain.terminal import one_line
from rltrain_nodes.callers import ANSWER_TIMEOUT
from rltrain_nodes.messages import (
    BadMessage,
    Member,
    parse_json,
    printable_text,
    receive_line,
    send,
)
from rltrain_nodes.network import interfaces, reachable_address

_CONNECT = 1.5
"""Seconds for a connection: what is lost is sent again after one."""

_STEP = _CONNECT + 2 * ANSWER_TIMEOUT
"""Seconds for each of the messages: the others may be busy."""

_AT_ONCE = 500
"""Most machines that one connects to at once: it has 1024 descriptors at least."""

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True)
class _Place:
    """Where a member listens."""

    number: int
    host: str
    address: str
    port: int


def unreached(member: Member, others: list[tuple[socket.socket, Member]], master: str) -> str:
    """Return who does not reach whom, in words; "" if all reach each other. Collective.

    Args:
        member: this one.
        others: the open connections: of number 0 to all others, and of those to number 0.
        master: the host of number 0.
    """
    with _listening(_own_address(master)) as own:
        mine = _Place(member.number, member.host, *own)
        if member.number != 0:
            return _as_told(mine, others[0][0])
        places = [mine]
        for connection, other in others:
            address, port = _fields(_hear(connection), "address", "port")
            places.append(_Place(other.number, other.host, _address(address), _port(port)))
        wanted = _machines(places)
        for connection, other in others:
            asked = wanted if any(each.number == other.number for each in wanted) else []
            send(connection, {"try": [[each.number, each.address, each.port] for each in asked]})
        failed = {0: _failures(_try(mine, wanted))} if mine in wanted else {}
        for connection, other in others:
            (found,) = _fields(_hear(connection), "failed")
            failed[other.number] = _failures(found)
        words = _words({each.number: each for each in places}, failed, member.kind)
        for connection, _ in others:
            send(connection, {"unreached": words})
        return words


def unreached_by(
    exchange: Callable[[Mapping[str, Any]], list[Any]], number: int, master: str
) -> str:
    """Return who does not reach whom, in words, for nodes that have met otherwise. Collective.

    Args:
        exchange: given a message of this node, returns those of all, in the order of numbers.
        number: of this one.
        master: the host at which they have met.

    Raises:
        BadMessage: another one does not speak the same protocol.
    """
    with _listening(_own_address(master)) as (address, port):
        found = exchange({"host": socket.gethostname(), "address": address, "port": port})
        places = [
            _Place(other, printable_text(host), _address(address), _port(port))
            for other, message in enumerate(found)
            for host, address, port in [_fields(message, "host", "address", "port")]
        ]
        wanted = _machines(places)
        mine = places[number]
        found = exchange({"failed": _try(mine, wanted) if mine in wanted else {}})
        failed = {n: _failures(*_fields(message, "failed")) for n, message in enumerate(found)}
        return _words(dict(enumerate(places)), failed, "node")


def _machines(places: list[_Place]) -> list[_Place]:
    """Return one place of each machine, whose ranks share its addresses; none if there is one."""
    # An address of one link cannot be connected to without the link's name.
    far = [each for each in places if not ipaddress.ip_address(each.address).is_link_local]
    found = list({each.address: each for each in reversed(far)}.values())
    return found if len(found) > 1 else []


def _as_told(mine: _Place, connection: socket.socket) -> str:
    """Connect to whom number 0 names, and return its verdict."""
    send(connection, {"address": mine.address, "port": mine.port})
    (asked,) = _fields(_hear(connection), "try")
    try:
        places = [_Place(int(n), "", _address(address), _port(port)) for n, address, port in asked]
    except (TypeError, ValueError):
        raise BadMessage("it names nobody to connect to") from None
    send(connection, {"failed": _try(mine, places)})
    (words,) = _fields(_hear(connection), "unreached")
    return one_line(printable_text(words))


def _try(mine: _Place, places: list[_Place]) -> dict[str, str]:
    """Connect to all others; return why not, by number, for those that were not reached."""
    others = [each for each in places if each.address != mine.address]
    failed: dict[str, str] = {}
    for first in range(0, len(others), _AT_ONCE):
        failed |= _connect(others[first : first + _AT_ONCE])
    return failed


def _connect(places: list[_Place]) -> dict[str, str]:
    failed = {str(each.number): "timed out" for each in places}
    deadline = time.monotonic() + _CONNECT
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as waiting:
        for each in places:
            family = socket.AF_INET6 if ":" in each.address else socket.AF_INET
            one = opened.enter_context(socket.socket(family))
            one.setblocking(False)
            code = one.connect_ex((each.address, each.port))
            if code in (0, errno.EINPROGRESS):
                waiting.register(one, selectors.EVENT_WRITE, each)
            else:
                failed[str(each.number)] = os.strerror(code)
        while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                waiting.unregister(key.fileobj)
                code = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # type: ignore[union-attr]
                failed[str(key.data.number)] = os.strerror(code)
                if code == 0:
                    del failed[str(key.data.number)]
    return failed


def _words(places: Mapping[int, _Place], failed: Mapping[int, Mapping[int, str]], kind: str) -> str:
    pairs = [
        f"{kind} {number} ({places[number].host}) does not reach {kind} {other} "
        f"({places[other].host}) at {endpoint(places[other].address, places[other].port)}: {why}"
        for number, found in sorted(failed.items())
        for other, why in sorted(found.items())
        if other in places
    ]
    if not pairs:
        return ""
    more = f"; and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    return (
        f"{pairs[0][0].upper()}{'; '.join(pairs[:3])[1:]}{more}. A firewall may let the master's "
        f"port through, and not this one. Ranks connect by ports that the system chooses{_chosen()}"
        ": open these for TCP between all nodes; or name the network between them with "
        "GLOO_SOCKET_IFNAME, and NCCL_SOCKET_IFNAME."
    )


def _chosen() -> str:
    """Return which ports the system chooses, if it says so."""
    try:
        first, last = _RANGE.read_text().split()
    except (OSError, ValueError):
        return ""
    return f" ({first} to {last})"


def _own_address(master: str) -> str:
    """Return the address at which ranks of this machine will listen."""
    named = interfaces().get(os.environ.get("GLOO_SOCKET_IFNAME", ""))
    return named or reachable_address(master, 2) or "127.0.0.1"


@contextlib.contextmanager
def _listening(address: str) -> Iterator[tuple[str, int]]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, backlog=4096) as server:
        yield address, server.getsockname()[1]


def _hear(connection: socket.socket) -> Any:
    return parse_json(receive_line(connection, _STEP))


def _fields(message: Any, *names: str) -> list[Any]:
    if not isinstance(message, dict) or set(message) != set(names):
        raise BadMessage(f"it has not the fields {', '.join(names)}")
    return [message[name] for name in names]


def _port(value: Any) -> int:
    if type(value) is not int or not 0 < value < 1 << 16:
        raise BadMessage("there is no such port")
    return value


def _failures(found: Any) -> dict[int, str]:
    if not isinstance(found, dict):
        raise BadMessage("it does not say whom it reaches")
    return {
        int(number): one_line(printable_text(why))[:200]
        for number, why in found.items()
        if number.isdecimal()
    }


def _address(value: Any) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise BadMessage("there is no such address") from None
