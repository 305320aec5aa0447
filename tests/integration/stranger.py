"""Another user of the machine, who connects to whatever listens there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from ports import Port

__all__ = ["NOBODY", "stranger"]

NOBODY = 65534
"""The user id of nobody, who owns nothing."""

MANY = 100

WORDS = (
    b"",
    b'{"member": {"kind": "node", "num',
    b"\x00\x00\x00",
    b"GET / HTTP/1.1\r\n\r\n",
    os.urandom(1000) + b"\n",
    b'{"kind": "node", "number": 1, "count": 7, "facts": {}, "host": "\x1b]0;evil\x07"}\n',
    *[b"\xff" * 8] * MANY,
)
"""What it says in each of its connections, all of which it keeps open: nothing, half a message,
garbage, a wrong hello with a terminal's control codes, and a hundred times the same."""


@contextlib.contextmanager
def stranger() -> Iterator[Callable[[Port], str]]:
    """Start a process of nobody, if this one is root's. Yield a function that lets it connect."""
    own, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(other,), daemon=True)
    process.start()
    other.close()

    def attack(port: Port) -> str:
        own.send(port)
        assert own.poll(120), "the stranger waits"
        return own.recv()

    try:
        yield attack
    finally:
        process.kill()
        process.join()


def _serve(connection: Connection) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    held: list[socket.socket] = []
    while True:
        connection.send(_attack(connection.recv(), held))


def _attack(port: Port, held: list[socket.socket]) -> str:
    """Connect again and again, as long as that works; return what came of it."""
    for count, words in enumerate(WORDS):
        try:
            held.append(_connected(port))
        except TimeoutError:
            return "gets no answer"
        except PermissionError:
            return "may not connect"
        except OSError as error:
            return f"connects {count} times" if count else (error.strerror or str(error)).lower()
        with contextlib.suppress(OSError):
            held[-1].sendall(words)
    return f"connects {len(WORDS)} times"


def _connected(port: Port) -> socket.socket:
    if port.number:
        host = "127.0.0.1" if port.address == "*" else port.address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address: str | tuple[str, int] = (host, port.number)
    else:
        family, address = socket.AF_UNIX, port.address
    # Not by name: nobody may not be able to import what looks names up.
    connection = socket.socket(family)
    try:
        connection.settimeout(1)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection
