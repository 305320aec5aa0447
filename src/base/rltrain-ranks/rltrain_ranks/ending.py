"""How a run is asked to end after its iteration, with a checkpoint: by memory that ranks look at.

A signal could not do it: torch elastic and torchrun end ranks with SIGTERM, and a rank that is
blocked in a collective runs no handler.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

from rltrain_ranks.board import board_of
from rltrain_ranks.interrupts import AGAIN, REQUESTS, SAME
from rltrain_ranks.logs.rank_log import show

__all__ = [
    *("AGAIN", "OF_SCHEDULERS", "REQUESTS"),
    *("announce_training", "ask_to_end", "asked_to_end", "heard_requests", "pass_on"),
]

_HEARD: ContextVar[list[int] | None] = ContextVar("rltrain requests to end", default=None)


def announce_training(folder: Path) -> None:
    """Let this node's launcher know that its ranks will soon end an iteration.

    Args:
        folder: where the ranks of this node report.
    """
    board_of(folder).is_training = True


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

    Args:
        heard: see `heard_requests`. The run may have been done all the same.
        exit_code: that of the run, which ranks elsewhere may have been asked to end.

    Raises:
        KeyboardInterrupt: it was Ctrl-C.
        SystemExit: it was another one; with the status 75, try again, as of the command.
    """
    if signal.SIGINT in heard or exit_code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if heard or exit_code == AGAIN:
        raise SystemExit(AGAIN)
