"""Following a run that still trains: each new checkpoint, as soon as it is complete."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rltrain.runs import INDEX, newest_of_run

__all__ = ["Follower"]

_INTERVAL = 1.0
"""Seconds between two looks."""


class Follower:
    """Looks for new checkpoints of one run."""

    def __init__(self, run: Path, trusted: bool = False) -> None:
        """Begin with those that are there.

        Args:
            run: the run folder.
            trusted: whether to follow links out of it.
        """
        self._trusted = trusted
        self._index = run / INDEX
        self._run = run
        self._looked = 0.0
        self._changed: int | None = None
        self._newest: tuple[Path, int] | None = None

    def look(self) -> tuple[Path, int] | None:
        """Return a checkpoint that is newer than the last one returned, and its iteration, or None.

        The disk is looked at about once a second, however often this is called.
        """
        now = time.monotonic()
        if self._looked and now - self._looked < _INTERVAL:
            return None
        self._looked = now
        try:
            changed = self._index.stat().st_mtime_ns
        except FileNotFoundError:
            return None  # Nothing has been saved yet.
        if changed == self._changed:
            return None
        try:
            newest = newest_of_run(self._run, _warn, self._trusted)
        except OSError:
            return None  # The run has removed one while it was read. The next look finds another.
        self._changed = changed
        if newest is None or newest == self._newest:
            return None
        self._newest = newest
        return newest

    def wait(self) -> tuple[Path, int]:
        """Return the newest checkpoint; wait for the first one."""
        while (found := self.look()) is None:
            time.sleep(_INTERVAL / 4)
        return found


def _warn(text: str) -> None:
    print(f"rltrain: {text}", file=sys.stderr, flush=True)
