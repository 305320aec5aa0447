"""Ranks are watched: which one hangs. For launchers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rltrain.config import Placement
from rltrain.ranks.hangs import HangWatch
from rltrain.ranks.pulse import pulse_files

__all__ = ["hang_watch"]


def hang_watch(config: Placement, reports: Path) -> Callable[[], None]:
    """Return a function for a launcher to call again and again: it ends ranks that hang.

    Args:
        config: where the run runs.
        reports: the folder where its ranks report.
    """
    watch = HangWatch(lambda: pulse_files(reports), config.hang_timeout, config.nnodes)

    def look() -> None:
        hang = watch.look()
        if hang is not None:
            hang.write_report(reports)
            hang.end()

    return look
