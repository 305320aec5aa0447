"""Following a run that still trains: each new checkpoint, as soon as it is complete."""

from __future__ import annotations

import time
from pathlib import Path

from rltrain.runs import INDEX, Checkpoint, Run

_INTERVAL = 1.0
"""Seconds between two looks."""


class Follower:
    """Looks for new checkpoints of one run."""

    def __init__(self, run: Run) -> None:
        """Begin with those that are there."""
        self._index = run.path / INDEX
        self._run = run
        self._looked = 0.0
        self._changed: int | None = None
        self._newest: tuple[Path, int | None] | None = None

    def look(self) -> Checkpoint | None:
        """Return a checkpoint that is newer than the last one returned, or None.

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
            newest = self._run.find()
        except OSError:
            return None  # The run has removed one while it was read. The next look finds another.
        self._changed = changed
        if newest is None or self._newest == (newest.path, newest.iteration):
            return None
        self._newest = newest.path, newest.iteration
        return newest

    def wait(self) -> Checkpoint:
        """Return the newest checkpoint; wait for the first one."""
        while (found := self.look()) is None:
            time.sleep(_INTERVAL / 4)
        return found
