"""Numbers and names as a page shows them."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable

HIGHEST = 1e300
"""Of a value that can be plotted."""


def number(value: float | None) -> str:
    """Return a number with three or four digits."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def compact(value: float) -> str:
    """Return a large number as 12.3k or 4.56M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}" if value < 1000 * size else f"{value:.3g}"
    return number(value)


def spread(values: Iterable[float | None], shown: Callable[[float], str] = number) -> str:
    """Return the mean, with the lowest and the highest value if they differ."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean, low, high = shown(statistics.fmean(known)), shown(min(known)), shown(max(known))
    return mean if low == high else f"{mean} ({low} to {high})"


def slugs(texts: Iterable[str]) -> dict[str, str]:
    """Return a part of a file's name for each text, all different."""
    found: dict[str, str] = {}
    for text in texts:
        short = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "x"
        count = 1
        while (name := short if count == 1 else f"{short}-{count}") in found.values():
            count += 1
        found[text] = name
    return found
