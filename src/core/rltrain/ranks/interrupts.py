"""Signals that ask the command to end, while nothing else handles them.

A run that trains has its own handlers, which let it end its iteration; see `rltrain.ranks.ending`.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

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

_TO_UNWIND = 30.0
"""Seconds that the command has to end: an exception can be lost, in a `__del__` or a callback."""

_SOON = 0.02
"""Seconds until a signal is tried again that has arrived within an import."""


class Ended(BaseException):
    """A signal ends this process. Compilers catch every Exception, and go on or say otherwise."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = signal.Signals(number)
        self.exit_code = status_of(number)


class Latest:
    """The signal that was handled last: it may come twice, and must raise once.

    Attributes:
        has_raised: whether one has raised what ends this process.
    """

    def __init__(self) -> None:
        self.has_raised = False
        self._number, self._at = 0, 0.0

    def is_again(self, number: int) -> bool:
        """Return whether a signal is the same one; if not, it is the latest now."""
        before, self._at = self._at, time.monotonic()
        same = number == self._number and self._at - before < SAME
        self._number = number
        return same

    def forget(self) -> None:
        """Note that it has raised nothing yet, and is tried again."""
        self.has_raised, self._number = False, 0


def status_of(number: int) -> int:
    """Return the exit status of a command that a signal has ended before it trained."""
    return AGAIN if number in OF_SCHEDULERS else 128 + number


def handle_requests() -> None:
    """Let each signal that asks to end raise an exception in this process, once."""
    global _owner
    _owner = os.getpid()
    for number in REQUESTS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _handle)
    sys.unraisablehook = functools.partial(_try_what_was_lost, sys.unraisablehook)


def is_free(number: int) -> bool:
    """Return whether nothing but Python, or the command, handles a signal."""
    return signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler, _handle)


def may_catch(number: int) -> bool:
    """Return whether a launcher may handle a signal: nohup ignores one, a job may use another."""
    ignored = signal.getsignal(number) == signal.SIG_IGN
    return is_free(number) or not (ignored or number in OF_SCHEDULERS)


def interrupt(number: int, frame: FrameType | None, error: BaseException, latest: Latest) -> None:
    """Raise an error in the handler of a signal, once; if a module is being imported, afterwards.

    Half a module stays behind where its import ends by an exception: the next import of it fails,
    and C code that it has begun to set up crashes.
    """
    global _thrown
    if latest.is_again(number):
        return
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return _try_again(number, latest)
        frame = frame.f_back
    latest.has_raised = True
    _thrown = id(error), number, latest
    raise error


def _try_again(number: int, latest: Latest) -> None:
    """Let a signal come again soon."""
    latest.forget()  # First: it may come before this function returns.
    _later(_SOON, signal.pthread_kill, threading.main_thread().ident, number)


def _later(seconds: float, act: Callable[..., object], *arguments: object) -> None:
    """Act in a while, in a thread that needs no locks: the next signal may raise now."""

    def wait() -> None:
        time.sleep(seconds)
        act(*arguments)

    _thread.start_new_thread(wait, ())


def _try_what_was_lost(
    show: Callable[[sys.UnraisableHookArgs], object], lost: sys.UnraisableHookArgs
) -> None:
    """Try a signal again whose error Python has to ignore: of a `__del__`, or a callback."""
    if _thrown is not None and id(lost.exc_value) == _thrown[0]:
        _try_again(*_thrown[1:])
    else:
        show(lost)


def asked() -> signal.Signals | None:
    """Return the signal that has ended what this process did, whatever has become of its error.

    Code in C++ makes another error of it, as matplotlib's does: "Invalid affine transformation".
    """
    if _thrown is None or _thrown[2] is not _latest or not _latest.has_raised:
        return None
    return signal.Signals(_thrown[1])


def end_by(number: int) -> None:
    """End this process by a signal, as if nothing handled it."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


_owner = os.getpid()
_latest = Latest()
_thrown: tuple[int, int, Latest] | None = None
"""The identity of the error that was raised last, its signal, and who handled that."""
_is_bounded = False


def _handle(number: int, frame: FrameType | None) -> None:
    global _is_bounded
    if os.getpid() != _owner:  # A copy, by os.fork; multiprocessing ends it by a signal, too.
        return end_by(number)
    if not _is_bounded:
        _is_bounded = True  # First: another signal may come meanwhile.
        _later(_TO_UNWIND, _give_up, number)
    if not _latest.has_raised:
        error = KeyboardInterrupt() if number == signal.SIGINT else Ended(number)
        interrupt(number, frame, error, _latest)
    elif not _latest.is_again(number):
        _give_up(number)


def _give_up(number: int) -> None:
    """End at once; what this process has left is removed by the next one, as after SIGKILL."""
    with contextlib.suppress(OSError):
        os.write(2, f"rltrain: ended at once by {signal.Signals(number).name}.\n".encode())
    os._exit(status_of(number))
