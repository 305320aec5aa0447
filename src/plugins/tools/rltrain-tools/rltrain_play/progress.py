"""How far an evaluation or a comparison is, told from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

_INTERVAL = 10.0
"""Seconds between two lines."""


class Progress:
    """Tells how far a process is with what it counts: one line in ten seconds.

    Args:
        total: how many the process does.
        say: prints a line.
        what: is counted.
    """

    def __init__(self, total: int, say: Callable[[str], None], what: str = "episodes") -> None:
        self._total, self._say, self._what = total, say, what
        self._before = 0
        self._began = self._said = time.monotonic()

    def block_done(self, episodes: int) -> None:
        """Count the episodes of a block that is done."""
        self._before += episodes

    def step(self, ended: int, steps: int | None = None) -> None:
        """Tell how far it is, if it is time for a line.

        Args:
            ended: how many of the present block have ended.
            steps: steps of the present block, where one of what is counted takes many.
        """
        now = time.monotonic()
        if now - self._said < _INTERVAL:
            return
        self._said, done = now, self._before + ended
        left = ""
        if done:
            seconds = round((now - self._began) / done * (self._total - done))
            left = f", about {timedelta(seconds=seconds)} left"
        at = "" if steps is None else f"; the next are at step {steps:,}"
        self._say(f"{done:,} of {self._total:,} {self._what}{left}{at}")
