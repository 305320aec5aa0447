"""What a plugin implements to send runs to a tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted

CHECKPOINTS = ("none", "last", "best", "all")
"""Which checkpoints a tracker is given; `last` and `best` when the run ends."""


class Refused(Exception):
    """The tracker will never take this, so it is left out. Any other error is tried again."""


@dataclass(frozen=True)
class Row:
    """The metrics of one iteration."""

    frames: int
    """Environment steps so far, over all environments and ranks: the x axis."""
    time: float
    """When they were recorded, in seconds since 1970."""
    metrics: dict[str, float]
    """By name; values may be NaN or infinite."""


class Tracker(Protocol):
    """A client of a tracker. A thread calls it, so calls may block.

    A call that raises is made again later, with the same arguments.
    """

    def connect(self, started: RunStarted) -> str | None:
        """Begin the tracker's run, or go on with one. Called first.

        Returns:
            A warning for the user, or None.
        """
        ...

    def log(self, rows: Sequence[Row]) -> None:
        """Send metrics, in order.

        Raises:
            Refused: the tracker will never take them.
        """
        ...

    def log_media(self, media: Media, frames: int) -> None:
        """Send an image, video or audio file."""
        ...

    def log_checkpoint(self, saved: CheckpointSaved, frames: int) -> None:
        """Send a checkpoint; see `checkpoint_files`."""
        ...

    def finish(self, ended: RunEnded) -> str | None:
        """End the tracker's run; see `outcome`. Called last.

        Returns:
            A warning for the user, or None.
        """
        ...


def check_options(checkpoints: str, finish_timeout: float) -> None:
    """Check the options that trackers have in common.

    Raises:
        ValueError: one is wrong.
    """
    if checkpoints not in CHECKPOINTS:
        raise ValueError(f"checkpoints={checkpoints} is none of these: {', '.join(CHECKPOINTS)}.")
    if not finish_timeout > 0:
        raise ValueError(f"finish_timeout={finish_timeout} must be greater than 0.")
