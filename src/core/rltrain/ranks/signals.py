"""Signals that ask a run to end. Once it trains, it ends after its iteration, with a checkpoint.

A rank that is blocked in a collective runs no handler, and launchers end ranks with SIGTERM. So
ranks are asked by `Notes`, which they read in each iteration.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from rltrain.errors import EndedBySignal
from rltrain.ranks.folders import Notes
from rltrain.ranks.logs import show
from rltrain.ranks.world import World

OF_SCHEDULERS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""The signals that a scheduler sends if it is asked to, some time before it kills; and a terminal
that closes. They may come to each process of a run, and are for its launcher."""

REQUESTS = (signal.SIGINT, signal.SIGTERM, *OF_SCHEDULERS)
"""The signals that ask."""

_OF_LAUNCHERS = (*REQUESTS, signal.SIGQUIT)

AGAIN = 75
"""The exit status of a run that a scheduler has ended: EX_TEMPFAIL in sysexits.h, try again."""

SAME = 0.5
"""Seconds in which a signal that arrives again is the same one: a scheduler, and timeout(1), send
it to a process and to all of its group."""


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


def ask_to_end(folder: Path, number: int, quiet: bool = False) -> bool:
    """Ask the ranks to end after their iteration, because of a signal.

    Args:
        folder: where the ranks of this node report.
        number: the signal.
        quiet: whether to say nothing on the console: another process does.

    Returns:
        False if that is no use: they have been asked a while before, or do not train yet, or the
        signal means that the run must end at once.
    """
    notes = Notes(folder)
    if number not in REQUESTS or not notes.is_training:
        return False
    asked, since = notes.asked
    if asked:
        return asked == number and time.time() - since < SAME
    notes.ask(number)
    if not quiet:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        text = "ending after this iteration, with a checkpoint; once more ends at once"
        show(f"{name}: {text}", folder)
    return True


def ended_by_signal(number: signal.Signals) -> BaseException:
    """Return the error of a run whose launcher received a signal."""
    if number == signal.SIGINT:
        return KeyboardInterrupt()
    message = f"The launcher received {number.name} and ended the run."
    return EndedBySignal(message, exit_code=status_of(number), may_restart=False)


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
        for number in _OF_LAUNCHERS:
            if may_catch(number):
                handlers[number] = signal.signal(number, signals.note)
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signals.close()


@contextlib.contextmanager
def ending_when_asked(folder: Path, world: World) -> Iterator[None]:
    """Let signals to this rank, which no launcher handles, ask all ranks to end.

    A second one, or one while nothing is trained, does what it did before: what this rank is
    blocked in may never return.
    """
    owner = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        is_copy = os.getpid() != owner  # multiprocessing ends it by a signal, too.
        if is_copy or not ask_to_end(folder, number, quiet=not world.is_root):
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows handlers in the main thread only.
        return
    before = {number: signal.getsignal(number) for number in REQUESTS if is_free(number)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Requests:
    """Collects this rank's requests; the ranks vote in every iteration, and one vote is enough.

    `exit_code` is the exit status of the run, if it is asked to end; else 0.
    """

    def __init__(self, interval: int | str | None, is_root: bool) -> None:
        """Start the clock of the option `checkpoint_interval`: only that of the root counts."""
        self.exit_code = 0
        self._notes: Notes | None = None
        self._has_launcher = False
        self._iterations = interval if isinstance(interval, int) else None
        self._seconds = float(interval[:-1]) if isinstance(interval, str) and is_root else None
        self.saved()

    def read_from(self, folder: Path, has_launcher: bool) -> None:
        """Read requests to end where the ranks of this node report.

        A terminal sends Ctrl-C to the ranks of a launcher too: once they train, they ignore it.
        """
        self._notes, self._has_launcher = Notes(folder), has_launcher

    def start(self) -> None:
        """Note that training starts."""
        self.saved()
        if self._notes is not None:
            self._notes.set_training()
            if self._has_launcher:
                signal.signal(signal.SIGINT, signal.SIG_IGN)

    def votes(self, iteration: int) -> tuple[bool, bool, bool]:
        """Return whether this rank asks to end after Ctrl-C, to end otherwise, and to save."""
        asked = self._notes.asked[0] if self._notes is not None else 0
        interrupted = asked == signal.SIGINT
        return interrupted, asked > 0 and not interrupted, self._save_is_due(iteration)

    def count(self, votes: Sequence[float]) -> tuple[bool, bool]:
        """Return whether to end, and whether to save, given the votes of all ranks."""
        interrupted, ended, save = (count > 0 for count in votes)
        self.exit_code = 128 + signal.SIGINT if interrupted else AGAIN if ended else 0
        return interrupted or ended, save

    def saved(self) -> None:
        """Note that a checkpoint was saved: the next one is due an interval later."""
        self._saved = time.monotonic()

    def _save_is_due(self, iteration: int) -> bool:
        if self._seconds is not None:
            return time.monotonic() - self._saved >= self._seconds
        return self._iterations is not None and iteration % self._iterations == 0
