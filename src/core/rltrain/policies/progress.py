"""How far an evaluation is, told from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

__all__ = ["Progress"]

_INTERVAL = 10.0
"""Seconds between two lines."""


class Progress:
    """Tells how far a process is with its episodes: one line in ten seconds.

    Args:
        episodes: how many the process plays.
        say: prints a line.
    """

    def __init__(self, episodes: int, say: Callable[[str], None]) -> None:
        self._episodes, self._say = episodes, say
        self._before = 0
        self._began = self._said = time.monotonic()

    def block_done(self, episodes: int) -> None:
        """Count the episodes of a block that is done."""
        self._before += episodes

    def step(self, ended: int, steps: int) -> None:
        """Tell how far it is, if it is time for a line.

        Args:
            ended: episodes of the present block that have ended.
            steps: steps of the present block.
        """
        now = time.monotonic()
        if now - self._said < _INTERVAL:
            return
        self._said, done = now, self._before + ended
        left = ""
        if done:
            seconds = round((now - self._began) / done * (self._episodes - done))
            left = f", about {timedelta(seconds=seconds)} left"
        self._say(f"{done:,} of {self._episodes:,} episodes{left}; the next are at step {steps:,}")
