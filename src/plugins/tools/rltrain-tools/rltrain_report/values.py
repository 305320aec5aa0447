"""The values in a picture, for those who point at it: read from what matplotlib has drawn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from rltrain.terminal import one_line, plain
from rltrain_report.numbers import compact, number

_MOST = 40
"""Strips of a picture: each is about as wide as a fingertip where a phone shows it."""
_POINTS_AN_INCH = 72
"""Of SVG's units, as matplotlib writes it."""

Series = tuple[str, Sequence[float], Sequence[float]]
"""Label, x and y. Between its points a line is straight; bars are read at their own places."""


def value_strips(axes: Any) -> str:
    """Return SVG that lies over the axes: a strip for each place, with a title of its values.

    Browsers show the title of what the pointer is on. It takes no script.
    """
    series = [*_bars(axes), *_lines(axes)]
    places = sorted({float(x) for _, xs, _ in series for x in xs})
    if len(places) > _MOST:
        low, high = places[0], places[-1]
        places = [low + (high - low) * index / (_MOST - 1) for index in range(_MOST)]
    scale = _POINTS_AN_INCH / axes.figure.dpi
    box, height = axes.bbox, axes.figure.bbox.height
    middles = [float(axes.transData.transform((x, 0))[0]) for x in places]
    between = [(one + other) / 2 for one, other in itertools.pairwise(middles)]
    edges = [edge * scale for edge in (box.x0, *between, box.x1)]
    vertical = f'y="{(height - box.y1) * scale:.1f}" height="{box.height * scale:.1f}"'
    return "".join(
        f'<rect class="values" x="{left:.1f}" width="{right - left:.1f}" {vertical}>'
        f"<title>{escape(plain(_told(axes, x, series)))}</title></rect>\n"
        for x, (left, right) in zip(places, itertools.pairwise(edges), strict=False)
    )


def _lines(axes: Any) -> Iterator[Series]:
    for line in axes.get_lines():
        # Those without a label explain others; a target spans the axes, and is in the legend.
        if not line.get_label().startswith("_") and line.get_transform() == axes.transData:
            yield line.get_label(), line.get_xdata(), line.get_ydata()


def _bars(axes: Any) -> Iterator[Series]:
    for bars in axes.containers:
        places = [bar.get_x() + bar.get_width() / 2 for bar in bars]
        yield bars.get_label(), places, [bar.get_height() for bar in bars]


def _told(axes: Any, x: float, series: Sequence[Series]) -> str:
    """Return what is at a place: the place, and a line for each series that is there."""
    import numpy as np

    unit = getattr(axes.yaxis.get_major_formatter(), "unit", "")
    lines = [_place(axes, x)]
    for label, xs, ys in series:
        if xs[0] <= x <= xs[-1]:
            value = f"{number(float(np.interp(x, xs, ys)))} {unit}".rstrip()
            lines.append(f"{one_line(label)}: {value}")
    return "\n".join(lines)


def _place(axes: Any, x: float) -> str:
    from matplotlib.ticker import FixedLocator

    if not isinstance(axes.xaxis.get_major_locator(), FixedLocator):
        return f"{compact(x)} {axes.get_xlabel()}"
    named = {
        tick: label.get_text()
        for tick, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    }
    return f"{axes.get_xlabel()} {named.get(round(x), f'{x:g}')}"
