"""Signals to a process that is a rank itself: no launcher handles them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from rltrain_ranks.board import board_of
from rltrain_ranks.ending import ask_to_end
from rltrain_ranks.interrupts import REQUESTS, Ended, Latest, end_by, interrupt, is_free
from rltrain_ranks.reports import ended_by_signal
from rltrain_ranks.world import World

__all__ = ["ending_when_asked"]


@contextlib.contextmanager
def ending_when_asked(folder: Path, world: World) -> Iterator[None]:
    """Let signals to this process ask all ranks to end after their iteration.

    A second one, or one while nothing is trained, ends this process at once.

    Args:
        folder: where the ranks of this node report.
        world: this rank's place.

    Raises:
        KeyboardInterrupt: by Ctrl-C; whatever the code in the context made of it.
        RankFailed: by another signal, likewise.
    """
    board_of(folder)
    ended: list[signal.Signals] = []
    owner, latest = os.getpid(), Latest()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:
            return end_by(number)
        if ask_to_end(folder, number, quiet=not world.is_root):
            return
        if number == signal.SIGINT or world.world_size == 1:
            ended.append(signal.Signals(number))
            error = KeyboardInterrupt() if number == signal.SIGINT else Ended(number)
            return interrupt(number, frame, error, latest)
        # What this rank is blocked in may never return.
        end_by(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows handlers in the main thread only.
        return
    before = {number: signal.signal(number, handle) for number in REQUESTS if is_free(number)}
    try:
        yield
    except BaseException:
        if not ended:
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if ended:
        raise ended_by_signal(ended[0])
