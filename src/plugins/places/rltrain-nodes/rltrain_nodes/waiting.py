"""What one that waits says now and then: for whom, and how long already."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from rltrain.launch import say

__all__ = ["Waiting", "waiting_for"]

_FIRST, _THEN = 10.0, 60.0
"""Seconds after which it is said for the first time, and seconds between two times afterwards."""


class Waiting:
    """Knows when to say it."""

    def __init__(self, timeout: float) -> None:
        """Begin to wait.

        Args:
            timeout: seconds after which the waiting ends.
        """
        self._began, self._next, self._timeout = time.monotonic(), _FIRST, timeout

    def due(self, what: str) -> str:
        """Return a line, if it is time for one; else "".

        Args:
            what: for whom it waits.
        """
        waited = time.monotonic() - self._began
        if waited < self._next:
            return ""
        self._next = (waited // _THEN + 1) * _THEN
        return f"waiting for {what} ({waited:.0f} s of {self._timeout:g}, --join-timeout)"


@contextlib.contextmanager
def waiting_for(what: str, timeout: float) -> Iterator[None]:
    """Say it while the context waits.

    Args:
        what: for whom it waits.
        timeout: seconds after which the waiting ends.
    """
    waiting, over = Waiting(timeout), threading.Event()

    def tell() -> None:
        while not over.wait(1.0):
            if line := waiting.due(what):
                say(line)

    thread = threading.Thread(target=tell, name="rltrain-waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
