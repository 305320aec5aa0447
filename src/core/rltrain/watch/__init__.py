"""Ranks are watched: which one hangs, and what each one did. For launchers.

The modules in this package are internal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rltrain.config import Placement
from rltrain_ranks.watch import hangs

__all__ = ["hang_watch"]


def hang_watch(config: Placement, reports: Path) -> Callable[[], None]:
    """Return a function for a launcher to call again and again: it ends ranks that hang.

    Args:
        config: where the run runs.
        reports: the folder where its ranks report.
    """
    return hangs.hang_watch(reports, config.hang_timeout, config.nnodes)
