"""What is asked of all ranks at the end of an iteration: to save a checkpoint, or to end."""

from __future__ import annotations

import time

__all__ = ["Requests"]


class Requests:
    """Collects this rank's requests. One of any rank is one to all: they vote in every iteration."""

    def __init__(self, interval: int | str | None, is_root: bool) -> None:
        """Start the clock.

        Args:
            interval: the option `checkpoint_interval`.
            is_root: whether this rank's clock counts.
        """
        timed = isinstance(interval, str)
        self._seconds = float(interval[:-1]) if is_root and isinstance(interval, str) else None
        self._iterations = None if timed else interval
        self._saved = time.monotonic()

    def save_is_due(self, iteration: int) -> bool:
        """Return whether this rank asks for a checkpoint after an iteration."""
        if self._seconds is not None:
            return time.monotonic() - self._saved >= self._seconds
        return bool(self._iterations) and iteration % int(self._iterations or 1) == 0

    def saved(self) -> None:
        """Note that a checkpoint was saved: the next one is due an interval later."""
        self._saved = time.monotonic()
