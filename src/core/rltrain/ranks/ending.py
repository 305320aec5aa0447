"""How a run is asked to end after its iteration, with a checkpoint: by memory that ranks look at.

A signal could not do it: launchers end ranks with SIGTERM, and a rank that is blocked in a
collective runs no handler.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

from rltrain.errors import EndedBySignal
from rltrain.ranks.board import board_of
from rltrain.ranks.interrupts import AGAIN, REQUESTS, SAME, is_free, status_of
from rltrain.ranks.logs.rank_log import show
from rltrain.ranks.world import World

_HEARD: ContextVar[list[int] | None] = ContextVar("rltrain requests to end", default=None)


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
    board = board_of(folder)
    if number not in REQUESTS or not board.is_training:
        return False
    if board.asked:
        return board.asked == number and time.monotonic() - board.asked_at < SAME
    board.ask(number)
    if (heard := _HEARD.get()) is not None:
        heard.append(number)
    if not quiet:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        text = f"{name}: ending after this iteration, with a checkpoint; once more ends at once"
        show(text, folder)
    return True


def asked_to_end(folder: Path) -> signal.Signals | None:
    """Return the signal because of which ranks are asked to end, or None."""
    asked = board_of(folder).asked
    return signal.Signals(asked) if asked else None


@contextlib.contextmanager
def heard_requests() -> Iterator[list[int]]:
    """Give a list of the signals because of which this process asks ranks to end in the context."""
    heard: list[int] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def pass_on(heard: Sequence[int], exit_code: int) -> None:
    """Let a signal that has ended a run end the script that called for it, too.

    The run may have been done all the same; ranks elsewhere may have been asked to end.
    """
    if signal.SIGINT in heard or exit_code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if heard or exit_code == AGAIN:
        raise SystemExit(AGAIN)


def ended_by_signal(number: signal.Signals) -> BaseException:
    """Return the error of a run whose launcher received a signal."""
    if number == signal.SIGINT:
        return KeyboardInterrupt()
    message = f"The launcher received {number.name} and ended the run."
    return EndedBySignal(message, exit_code=status_of(number), may_restart=False)


@contextlib.contextmanager
def ending_when_asked(folder: Path, world: World) -> Iterator[None]:
    """Let signals to this rank, which no launcher handles, ask all ranks to end.

    A second one, or one while nothing is trained, does what it did before: what this rank is
    blocked in may never return.
    """
    board_of(folder)
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
    """Collects this rank's requests. One of any rank is one to all: they vote in every iteration.

    `exit_code` is the exit status of the run, if it is asked to end; else 0.
    """

    def __init__(self, interval: int | str | None, is_root: bool) -> None:
        """Start the clock of the option `checkpoint_interval`: only that of the root counts."""
        self.exit_code = 0
        self._folder: Path | None = None
        self._has_launcher = False
        self._iterations = interval if isinstance(interval, int) else None
        self._seconds = float(interval[:-1]) if isinstance(interval, str) and is_root else None
        self.saved()

    def look_in(self, folder: Path, has_launcher: bool) -> None:
        """Look for requests to end where the ranks of this node report.

        A terminal sends Ctrl-C to the ranks of a launcher too: once they train, they ignore it.
        """
        board_of(folder)  # While it is there.
        self._folder, self._has_launcher = folder, has_launcher

    def start(self) -> None:
        """Note that training starts."""
        self._saved = time.monotonic()
        if self._folder is not None:
            board_of(self._folder).is_training = True
            if self._has_launcher:
                signal.signal(signal.SIGINT, signal.SIG_IGN)

    def votes(self, iteration: int) -> tuple[bool, bool, bool]:
        """Return whether this rank asks to end after Ctrl-C, to end otherwise, and to save."""
        asked = asked_to_end(self._folder) if self._folder is not None else None
        interrupted = asked == signal.SIGINT
        return interrupted, asked is not None and not interrupted, self._save_is_due(iteration)

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
