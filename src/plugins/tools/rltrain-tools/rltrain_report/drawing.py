"""The pictures of a page: drawn once by matplotlib, as SVG for the page and as PNG beside it."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from rltrain.terminal import one_line, plain
from rltrain_report.values import value_strips

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, RULE, PAPER = "#1c2530", "#5d6873", "#dfe3e8", "#fdfdfe"
"""Text, labels, grid and background of the PNG files."""
SERIES = (
    *("#2467b3", "#c9562f", "#25855f", "#8653b8"),
    *("#a8790d", "#bf3f7a", "#2c8a9c", "#767f89"),
)
"""The colors of lines and bars. The page replaces each of these by one of the reader's theme."""
DASHES = ("-", "--", ":", "-.")
DPI = 150
SIZE = (4.2, 2.7)
"""Width and height in inches. Small: text can be read where a phone shows it 328 pixels wide."""
ROW = 0.19
"""Height of a row of the legend, in inches."""
WIDE = 26
"""Length of the labels that fit into one of two columns."""

_VARIABLES = {
    **{INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"},
    **{hue: f"--series-{index}" for index, hue in enumerate(SERIES)},
}
_STYLE: dict[Any, Any] = {
    **{"font.size": 9.0, "font.family": "sans-serif", "svg.fonttype": "none"},
    **{"text.color": INK, "axes.labelcolor": MUTED, "axes.titlecolor": INK},
    **{"xtick.color": MUTED, "ytick.color": MUTED, "axes.edgecolor": RULE, "grid.color": RULE},
    **{"axes.titlesize": 10.0, "axes.titleweight": "bold", "axes.titlelocation": "left"},
    **{
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
    },
    **{"axes.axisbelow": True, "grid.linewidth": 0.7, "lines.linewidth": 1.6},
    **{"xtick.major.size": 0.0, "ytick.major.size": 0.0, "axes.titlepad": 9.0},
    **{"legend.frameon": False, "legend.fontsize": 8.5, "path.simplify": True},
    **{"figure.facecolor": PAPER, "axes.facecolor": "none", "text.parse_math": False},
}


@dataclass(frozen=True)
class Picture:
    """One figure. It is drawn when it is asked for."""

    name: str
    """The PNG file's name, without its suffix."""
    title: str
    """Printed above the axes."""
    alt: str
    """What it shows, in a sentence, for those who cannot see it."""
    draw: Callable[[Any], None]
    """Draws on matplotlib's `Axes`. What has a label can be read where the reader points."""
    legend: Sequence[str] = ()
    """The labels that a legend below the axes explains."""

    @property
    def svg(self) -> str:
        """An `<svg>` element, whose colors are CSS variables."""
        return self._files[0]

    @property
    def png(self) -> bytes:
        """A PNG file."""
        return self._files[1]

    @functools.cached_property
    def _files(self) -> tuple[str, bytes]:
        from matplotlib import rc_context, rcdefaults, rcParams

        drawn, printed = io.StringIO(), io.BytesIO()
        with rc_context():
            rcdefaults()  # The user's own style is for other pictures.
            rcParams.update(_STYLE)
            figure = self._figure()
            figure.savefig(drawn, format="svg", transparent=True)
            figure.savefig(printed, format="png", dpi=DPI)
            values = value_strips(figure.axes[0])
        svg = _inlined(plain(drawn.getvalue()), self.name, plain(self.alt))
        return svg.removesuffix("</svg>") + values + "</svg>", printed.getvalue()

    def _figure(self) -> Figure:
        from matplotlib.figure import Figure

        columns = 2 if max(map(len, self.legend), default=0) <= WIDE else 1
        below = ROW * -(-len(self.legend) // columns)
        height = SIZE[1] + below
        figure = Figure(figsize=(SIZE[0], height))
        axes = figure.add_axes((0.15, (0.5 + below) / height, 0.82, (SIZE[1] - 0.85) / height))
        self.draw(axes)
        axes.set_title(shortened(one_line(self.title), 46), x=-0.15)
        if self.legend:
            handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            figure.legend(
                [handles[label] for label in self.legend if label in handles],
                [shortened(one_line(label), WIDE * 2) for label in self.legend if label in handles],
                loc="lower left",
                ncols=columns,
                bbox_to_anchor=(0.02, 0.0),
                borderaxespad=0.2,
                columnspacing=1.2,
                handlelength=1.6,
            )
        return figure


def color(index: int) -> str:
    """Return the color of the series with this number."""
    return SERIES[index % len(SERIES)]


def dash(index: int) -> str:
    """Return the line style of the series with this number: colors repeat, so dashes differ."""
    return DASHES[index // len(SERIES) % len(DASHES)]


def shortened(text: str, length: int) -> str:
    """Return a text without its middle, if it is longer."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}…{text[1 - half :]}"


def _inlined(svg: str, name: str, alt: str) -> str:
    """Return matplotlib's SVG file as an element of a page that has several.

    Ids are made different from those of other pictures, and colors are left to the page.
    """
    element = svg[svg.index("<svg") :]
    element = re.sub(
        r"<(metadata|defs>\s*<style).*?</(metadata|style>\s*</defs)>", "", element, flags=re.DOTALL
    )
    element = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{escape(name)}-", element)
    for hue, variable in _VARIABLES.items():
        element = re.sub(hue, f"var({variable})", element, flags=re.IGNORECASE)
    element = re.sub(r"(font: [\d.]+px|font-family:) [^;\"]*;?", _size, element)
    start, _, rest = element.partition(">")
    size = re.search(r'viewBox="[^"]*"', start)
    assert size is not None, "matplotlib's files have a viewBox"
    return f'<svg role="img" aria-label="{escape(alt)}" {size[0]}>{rest}'.strip()


def _size(font: re.Match[str]) -> str:
    """Return a font without its family: the text has that of the page."""
    found = re.search(r"[\d.]+px", font[0])
    return f"font-size: {found[0]};" if found else ""
