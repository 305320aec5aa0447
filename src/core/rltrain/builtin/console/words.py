"""Numbers, times and paths as the console shows them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["duration", "number", "percent", "shortest", "speed"]


def number(value: float | None) -> str:
    """Return a value with four digits or one decimal place, "-" if there is none."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e9 else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share, 0 to 1, in percent."""
    return f"{share:.0%}"


def speed(fps: tuple[float, ...]) -> str:
    """Return frames per second of all ranks together, and of each."""
    each = " + ".join(f"{rank:,.0f}" for rank in fps)
    if len(fps) > 4:
        each = f"{min(fps):,.0f}..{max(fps):,.0f} a rank"
    return f"{sum(fps):,.0f} ({each})" if len(fps) > 1 else each or "-"


def duration(seconds: float) -> str:
    """Return a time as minutes and seconds, and hours if there are some."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def shortest(path: str | Path) -> str:
    """Return an absolute path, or the same from the current folder if that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)
