"""What is asked of all ranks at the end of an iteration: to end, or to save a checkpoint."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from rltrain_ranks.board import board_of
from rltrain_ranks.ending import announce_training, asked_to_end
from rltrain_ranks.interrupts import AGAIN

__all__ = ["Requests"]

_LONGEST_PATIENCE = 64
"""Iterations between two attempts to save a checkpoint."""


class Requests:
    """Collects this rank's requests. One of any rank is one to all: they vote in every iteration.

    Attributes:
        exit_code: the exit status of the run, if it is asked to end; else 0.
    """

    def __init__(self, interval: int | str | None, is_root: bool) -> None:
        """Start the clock.

        Args:
            interval: the option `checkpoint_interval`.
            is_root: whether this rank's clock counts.
        """
        self.exit_code = 0
        self._folder: Path | None = None
        self._has_launcher = False
        self._iterations, self._seconds = None, None
        if isinstance(interval, int):
            self._iterations = interval
        elif interval is not None and is_root:
            self._seconds = float(interval[:-1])
        self._saved = time.monotonic()
        self._patience = self._until_retry = 0

    def look_in(self, folder: Path, has_launcher: bool) -> None:
        """Look for requests to end in a folder; see `rltrain_ranks.ending`.

        Args:
            folder: where the ranks of this node report.
            has_launcher: whether a launcher of rltrain handles signals. A terminal sends Ctrl-C to
                its ranks too: once they train, they ignore it.
        """
        board_of(folder)  # While it is there.
        self._folder, self._has_launcher = folder, has_launcher

    def start(self) -> None:
        """Note that training starts."""
        self._saved = time.monotonic()
        if self._folder is not None:
            announce_training(self._folder)
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
        self._patience = self._until_retry = 0

    def not_saved(self) -> None:
        """Ask for a checkpoint that could not be saved in the next iteration; then ever later.

        A large one that fails again and again would take most of the time.
        """
        self._patience = min(2 * self._patience or 1, _LONGEST_PATIENCE)
        self._until_retry = self._patience

    def _save_is_due(self, iteration: int) -> bool:
        if self._until_retry > 0:
            self._until_retry -= 1
            if self._until_retry == 0:
                return True
        if self._seconds is not None:
            return time.monotonic() - self._saved >= self._seconds
        return self._iterations is not None and iteration % self._iterations == 0
