"""Gives ranks the launcher's own standard output, and tells them when the launcher ends.

mpiexec starts each rank with pipes, which it copies. A rank needs the user's terminal itself, whose
width it asks for.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_NAME = "console"
_STANDARD = (1, 2)
"""Standard output and standard error."""

_LONGEST = 16
"""Bytes of a rank's number."""


class Console:
    """A socket in a private folder. Every rank connects, and stays connected.

    Attributes:
        sockets: become readable when there is something to `handle`.
        ended: the ranks that have ended, the first one first; None for one that was not numbered.
    """

    def __init__(self, folder: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _NAME))
        self._listener.listen(socket.SOMAXCONN)
        self._ranks: dict[socket.socket, int | None] = {}
        self.ended: list[int | None] = []

    @property
    def sockets(self) -> list[socket.socket]:
        """The listener, and one for each rank that has not ended."""
        return [self._listener, *self._ranks]

    def handle(self, ready: socket.socket) -> None:
        """Give a new rank this process' standard output, or note a rank's number or its end."""
        if ready is self._listener:
            rank, _ = self._listener.accept()
            self._ranks[rank] = None
            with contextlib.suppress(OSError):  # It may have ended.
                socket.send_fds(rank, [b"!"], _STANDARD)
            return
        try:
            number = ready.recv(_LONGEST)
        except ConnectionError:
            number = b""
        if number:
            self._ranks[ready] = int(number)
        else:
            self.ended.append(self._ranks.pop(ready))
            ready.close()

    def close(self) -> None:
        """Leave the ranks, which then end."""
        for each in self.sockets:
            each.close()


@contextlib.contextmanager
def opened_console(folder: Path) -> Iterator[Console]:
    """Let ranks connect while the context is open."""
    console = Console(folder)
    try:
        yield console
    finally:
        console.close()


def join_console(folder: Path) -> Callable[[int], None]:
    """Write to the launcher's standard output from now on, and end when the launcher ends.

    Returns:
        A function that tells the launcher this rank's number.
    """
    launcher = socket.socket(socket.AF_UNIX)
    launcher.connect(str(folder / _NAME))
    _, received, _, _ = socket.recv_fds(launcher, 1, len(_STANDARD))
    for given, own in zip(received, _STANDARD, strict=True):
        os.dup2(given, own)
        os.close(given)
    threading.Thread(target=_watch, args=(launcher,), daemon=True).start()
    return lambda rank: launcher.sendall(b"%d" % rank)


def _watch(launcher: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):  # It ended before it read this rank's number.
        while launcher.recv(1):
            pass
    os._exit(1)
