"""Signals that ask the command to end. Until a run trains, they end it as if nothing handled them.

A run that trains has its own handlers, which let it end its iteration; see `rltrain.ranks.ending`.
"""

from __future__ import annotations

import signal
import time

OF_SCHEDULERS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""The signals that a scheduler sends if it is asked to, some time before it kills; and a terminal
that closes. They may come to each process of a run, and are for its launcher."""

REQUESTS = (signal.SIGINT, signal.SIGTERM, *OF_SCHEDULERS)
"""The signals that ask."""

AGAIN = 75
"""The exit status of a run that a scheduler has ended: EX_TEMPFAIL in sysexits.h, try again."""

SAME = 0.5
"""Seconds in which a signal that arrives again is the same one: a scheduler, and timeout(1), send
it to a process and to all of its group."""


class Latest:
    """The signal that was handled last: it may come twice, and must raise once."""

    def __init__(self) -> None:
        self._number, self._at = 0, 0.0

    def is_again(self, number: int) -> bool:
        """Return whether a signal is the same one; if not, it is the latest now."""
        before, self._at = self._at, time.monotonic()
        same = number == self._number and self._at - before < SAME
        self._number = number
        return same


def status_of(number: int) -> int:
    """Return the exit status of a command that a signal has ended before it trained."""
    return AGAIN if number in OF_SCHEDULERS else 128 + number


def is_free(number: int) -> bool:
    """Return whether nothing but Python handles a signal."""
    return signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def may_catch(number: int) -> bool:
    """Return whether a launcher may handle a signal: nohup ignores one, a job may use another."""
    ignored = signal.getsignal(number) == signal.SIG_IGN
    return is_free(number) or not (ignored or number in OF_SCHEDULERS)
