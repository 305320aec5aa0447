"""All ranks connect to rank 0 before jax starts.

If a rank is missing, jax aborts the process of every rank, and says neither which one is missing
nor what to do. So rank 0 first listens on the address of jax's coordinator and waits for every
rank; only then does jax listen there.
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
"""Seconds until all ranks must have connected: users may start nodes by hand."""

_RETRY = 0.2
"""Seconds between two attempts to reach rank 0."""

_ANSWER_TIMEOUT = 5.0
"""Seconds for an answer that should come at once."""

_CHECK = "Check --nnodes, --node-rank, --nproc-per-node and --coordinator-address on every node."


def meet(world: World, host: str, port: int, timeout: float = TIMEOUT) -> None:
    """Wait until every rank has connected. Collective.

    Args:
        world: this rank's place.
        host: of rank 0.
        port: on that host; it is free again afterwards.
        timeout: in seconds.

    Raises:
        UsageError: a rank is missing, connected twice, or has another world size than rank 0.
    """
    if world.is_root:
        _wait_for_ranks(world, host, port, timeout)
    else:
        _report(world, host, port, timeout)


def _wait_for_ranks(world: World, host: str, port: int, timeout: float) -> None:
    """Wait for all other ranks on rank 0, and send each of them the outcome."""
    deadline = time.monotonic() + timeout
    missing = set(range(1, world.world_size))
    connections: list[socket.socket] = []
    wrong = ""
    with contextlib.ExitStack() as opened, _listening(host, port) as server:
        while missing and not wrong:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection = opened.enter_context(server.accept()[0])
            except TimeoutError:
                wrong = f"{_ranks(missing)} of {world.world_size} did not connect."
                break
            connection.settimeout(_ANSWER_TIMEOUT)
            # Other programs may connect here.
            with contextlib.suppress(OSError, ValueError, TypeError):
                rank, world_size = _receive(connection)
                wrong = _objection(world, rank, world_size, missing)
                missing.discard(rank)
                connections.append(connection)
        for connection in connections:
            with contextlib.suppress(OSError):
                _send(connection, wrong)
        for connection in connections:
            _wait_until_closed(connection)
    if wrong:
        raise _not_met(host, port, wrong)


def _objection(world: World, rank: int, world_size: int, missing: set[int]) -> str:
    """Return what is wrong with a rank that connected; "" if nothing is."""
    if world_size != world.world_size:
        return (
            f"Rank {rank} has a world size of {world_size}, and rank 0 has {world.world_size}: "
            "every node must start the same number of ranks."
        )
    if rank not in missing:
        return f"Rank {rank} connected twice: two nodes have the same --node-rank."
    return ""


def _report(world: World, host: str, port: int, timeout: float) -> None:
    """Connect to rank 0, and receive the outcome."""
    deadline, failed = time.monotonic() + timeout, None
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host, port), timeout=_ANSWER_TIMEOUT) as connection:
                _send(connection, (world.rank, world.world_size))
                # From here on rank 0 has the timeout; it may have started later than this rank.
                connection.settimeout(timeout + _ANSWER_TIMEOUT)
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
    """Listen on the loopback interface if the host is that, otherwise on every interface."""
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
    """Let the other side close first; otherwise this port would stay in TIME_WAIT."""
    with contextlib.suppress(OSError):
        connection.recv(1)
