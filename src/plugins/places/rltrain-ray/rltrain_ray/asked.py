"""Signals that ask a run to end: its first node hears of them."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from rltrain.launch import REQUESTS, Latest, ended_by_signal, may_catch


class Asked:
    """What this process was asked.

    Attributes:
        last: the signal that came last.
    """

    def __init__(self) -> None:
        self.last: signal.Signals | None = None
        self._latest = Latest()
        self._noted: list[signal.Signals] | None = None

    @contextlib.contextmanager
    def noting(self) -> Iterator[list[signal.Signals]]:
        """Give a list that the first signal is noted in; the next one raises, as outside."""
        self._noted = []
        try:
            yield self._noted
        finally:
            self._noted = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._latest.is_again(number):
            return
        is_first = self.last is None
        self.last = signal.Signals(number)
        if self._noted is None or not is_first:
            raise KeyboardInterrupt  # The only one that Ray's functions let through.
        self._noted.append(self.last)


@contextlib.contextmanager
def handled_requests() -> Iterator[Asked]:
    """Handle signals that ask to end, in place of Ray, which has its own words and statuses."""
    asked = Asked()
    handled = REQUESTS if threading.current_thread() is threading.main_thread() else ()
    before = {
        number: signal.signal(number, asked.handle) for number in handled if may_catch(number)
    }
    try:
        yield asked
    except KeyboardInterrupt:
        raise ended_by_signal(asked.last or signal.SIGINT) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
