"""Signals to a launcher: they are noted, and wake it up."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from rltrain.launch import REQUESTS, may_catch

_SIGNALS = (*REQUESTS, signal.SIGQUIT)


class CaughtSignals:
    """The signals that have arrived.

    `seen` has those that `take` has not returned yet; `wakeup` is readable after the first one.
    """

    def __init__(self) -> None:
        self.seen: list[signal.Signals] = []
        self.wakeup, self._bell = multiprocessing.Pipe(duplex=False)

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: only note it, because it may interrupt any code."""
        self.seen.append(signal.Signals(number))
        self._bell.send_bytes(b"!")

    def take(self) -> list[signal.Signals]:
        """Return the signals that arrived since the last call."""
        self.drain()
        taken, self.seen = self.seen, []
        return taken

    def drain(self) -> None:
        """Make the connection wait for the next signal."""
        while self.wakeup.poll():
            self.wakeup.recv_bytes()

    def close(self) -> None:
        """Close the connection."""
        self.wakeup.close()
        self._bell.close()


@contextlib.contextmanager
def caught_signals() -> Iterator[CaughtSignals]:
    """Note signals while the context is open; Python allows handlers in the main thread only."""
    signals, handlers = CaughtSignals(), {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if may_catch(number):
                handlers[number] = signal.signal(number, signals.note)
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signals.close()
