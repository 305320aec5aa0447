"""All ranks meet before jax is told of them.

jax itself would abort the process of every rank when one does not come, and say neither which one
nor what to do about it. So rank 0 first listens where it will host jax's coordinator, and calls the
roll; only then does jax listen there.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

from rltrain.errors import UsageError
from rltrain.types import World

__all__ = ["TIMEOUT", "meet"]

TIMEOUT = 300.0
"""Seconds in which all ranks must have come: nodes may be started by hand, one after the other."""

_RETRY = 0.2
"""Seconds between two attempts to reach rank 0."""

_PATIENCE = 5.0
"""Seconds for what should be there at once."""

_CHECK = "Check --nnodes, --node-rank, --nproc-per-node and --coordinator-address on every node."


def meet(world: World, host: str, port: int, timeout: float = TIMEOUT) -> None:
    """Wait until every rank is here. Collective.

    Args:
        world: this rank's place.
        host: of rank 0.
        port: on that host; it is free again afterwards.
        timeout: in seconds.

    Raises:
        UsageError: some rank did not come, came twice, or counts other ranks than rank 0 does.
    """
    if world.is_root:
        _call_the_roll(world, host, port, timeout)
    else:
        _report(world, host, port, timeout)


def _call_the_roll(world: World, host: str, port: int, timeout: float) -> None:
    """Wait for all others on rank 0, and tell each of them how that went."""
    deadline = time.monotonic() + timeout
    missing = set(range(1, world.world_size))
    callers: list[socket.socket] = []
    wrong = ""
    with contextlib.ExitStack() as opened, _listening(host, port) as server:
        while missing and not wrong:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                caller = opened.enter_context(server.accept()[0])
            except TimeoutError:
                wrong = f"{_ranks(missing)} of {world.world_size} did not come."
                break
            caller.settimeout(_PATIENCE)
            with contextlib.suppress(OSError, ValueError, TypeError):  # Whoever else calls here.
                rank, world_size = _receive(caller)
                wrong = _objection(world, rank, world_size, missing)
                missing.discard(rank)
                callers.append(caller)
        for caller in callers:
            with contextlib.suppress(OSError):
                _send(caller, wrong)
        for caller in callers:
            _wait_until_closed(caller)
    if wrong:
        raise _not_met(host, port, wrong)


def _objection(world: World, rank: int, world_size: int, missing: set[int]) -> str:
    """Say what is wrong with a rank that came; "" if nothing is."""
    if world_size != world.world_size:
        return (
            f"Rank {rank} is one of {world_size} ranks, and rank 0 one of {world.world_size}: "
            "every node must start the same number."
        )
    if rank not in missing:
        return f"Rank {rank} came twice: two nodes have the same --node-rank."
    return ""


def _report(world: World, host: str, port: int, timeout: float) -> None:
    """Go to rank 0, and hear how the roll call went."""
    deadline, failed = time.monotonic() + timeout, None
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host, port), timeout=_PATIENCE) as connection:
                _send(connection, (world.rank, world.world_size))
                # Rank 0 keeps the time from here on; it may have begun later than this rank.
                connection.settimeout(timeout + _PATIENCE)
                wrong = _receive(connection)
        except (OSError, ValueError) as error:
            failed = error
            time.sleep(_RETRY)
            continue
        if wrong:
            raise _not_met(host, port, wrong)
        return
    raise _not_met(host, port, f"Rank 0 did not answer: {failed}.")


def _not_met(host: str, port: int, what: str) -> UsageError:
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return UsageError(f"The ranks did not find each other at {where}. {what} {_CHECK}")


def _ranks(numbers: set[int]) -> str:
    return f"Rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on the loopback if that is what the host is, else on every interface."""
    try:
        if host in ("127.0.0.1", "localhost"):
            server = socket.create_server(("127.0.0.1", port))
        elif host == "::1":
            server = socket.create_server((host, port), family=socket.AF_INET6)
        elif socket.has_dualstack_ipv6():
            server = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            server = socket.create_server(("", port))
    except OSError as error:
        raise _not_met(host, port, f"Rank 0 cannot listen there: {error}.") from error
    with server:
        yield server


def _send(connection: socket.socket, message: object) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _receive(connection: socket.socket) -> Any:
    with connection.makefile("r", encoding="utf-8") as lines:
        return json.loads(lines.readline(4096))


def _wait_until_closed(connection: socket.socket) -> None:
    """Let the other side close first: the port of this one would stay taken for a while."""
    with contextlib.suppress(OSError):
        connection.recv(1)
