"""The pictures of a page, by matplotlib: curves of runs, and the time of an iteration as bars."""

from __future__ import annotations

import functools
import io
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rltrain.records import Scalars
from rltrain.runs import Run
from rltrain.terminal import one_line, plain
from rltrain_report.groups import Group
from rltrain_report.numbers import HIGHEST, number
from rltrain_report.timing import PHASES, RankTime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Curve = tuple[NDArray[Any], NDArray[Any]]
    """What a run recorded, as x and y."""

_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dfe3e8",
    "lines.linewidth": 1.6,
    "text.parse_math": False,
}
_COLORS = 10
"""Of matplotlib's default cycle, C0 to C9."""
_DASHES = ("-", "--", ":", "-.")
_POINTS = 300
"""Most points of a line: of longer ones, neighbors are averaged."""

Read = Callable[[Scalars], float | None]


@dataclass(frozen=True)
class Picture:
    """One figure. It is plotted when it is asked for."""

    name: str
    """The PNG file's name, without its suffix."""
    title: str
    alt: str
    """What it shows, in a sentence, for those who cannot see it."""
    plot: Callable[[Any], None]
    """Plots on matplotlib's `Axes`. Labels are explained by a legend, if there are several."""

    @functools.cached_property
    def png(self) -> bytes:
        """A PNG file."""
        from matplotlib import rc_context, rcdefaults, rcParams
        from matplotlib.figure import Figure

        file = io.BytesIO()
        with rc_context():
            rcdefaults()  # The user's own style is for other pictures.
            rcParams.update(_STYLE)
            figure = Figure(figsize=(4.2, 2.4))
            axes = figure.add_subplot()
            self.plot(axes)
            axes.set_title(shortened(self.title, 50), loc="left")
            handles, labels = axes.get_legend_handles_labels()
            if len(handles) > 1:
                axes.legend(
                    handles,
                    [shortened(label, 60) for label in labels],
                    loc="upper left",
                    bbox_to_anchor=(-0.1, -0.22),
                    ncols=2 if max(map(len, labels)) < 26 else 1,
                )
            figure.savefig(file, format="png", dpi=150, bbox_inches="tight")
        return file.getvalue()


def color(index: int) -> str:
    """Return the color of the series with this number."""
    return f"C{index % _COLORS}"


def shortened(text: str, length: int) -> str:
    """Return a text in a line, without its middle if it is longer."""
    text, half = plain(one_line(text)), length // 2
    return text if len(text) <= length else f"{text[:half]}…{text[1 - half :]}"


def curve_picture(
    name: str,
    title: str,
    groups: Sequence[Group],
    read: Read,
    across: str,
    targets: Sequence[float] = (),
) -> Picture | None:
    """Plot what each group recorded: a thin line for each seed, their mean, and their band.

    `read` returns the number to plot; None or NaN leaves a point out. The x axis `across` is
    "frames" or "seconds". Each target is a line across. Without any point, return None.
    """

    def curves_of(runs: Sequence[Run]) -> list[Curve]:
        return [curve for run in runs if (curve := _curve(run, read, across)) is not None]

    found = [(group, curves_of(group.counted), curves_of(group.others)) for group in groups]
    shown = [(group, one or other, other) for group, one, other in found if one or other]
    if not shown:
        return None
    end = max(float(xs[-1]) for _, one, other in shown for xs, _ in (*one, *other))
    unit, label = (1.0, "frames") if across == "frames" else _unit_of_time(end)
    summaries = "; ".join(f"{group.label}: {_summary(curves)}" for group, curves, _ in shown)
    lines = {f"target {number(target)}": target for target in targets}
    against = label if across == "frames" else "time"
    alt = ". ".join([f"{title} against {against}", summaries, *lines]) + "."

    def plot(axes: Any) -> None:
        for group, curves, others in shown:
            # Colors repeat, so dashes differ.
            dash = _DASHES[group.index // _COLORS % len(_DASHES)]
            style = {"color": color(group.index), "linestyle": dash}
            text = f"{group.label} (n={len(curves)})"
            _plot_group(axes, [(xs / unit, ys) for xs, ys in curves], style, text)
            for xs, ys in others:
                axes.plot(xs / unit, ys, color=color(group.index), linestyle=":", linewidth=0.9)
        for text, target in lines.items():
            axes.axhline(target, color="gray", linestyle="--", linewidth=1.1, label=text)
        axes.set_xlabel(label, loc="right")
        if end >= 10_000 * unit:
            from matplotlib.ticker import EngFormatter

            axes.xaxis.set_major_formatter(EngFormatter(sep=""))

    return Picture(name, title, alt, plot)


def _summary(curves: Sequence[Curve]) -> str:
    first, last = (statistics.fmean(float(ys[at]) for _, ys in curves) for at in (0, -1))
    seeds = f", mean of {len(curves)} seeds" if len(curves) > 1 else ""
    return f"from {number(first)} to {number(last)}{seeds}"


def _curve(run: Run, read: Read, across: str) -> Curve | None:
    """Return what a run recorded; long lines are averaged."""
    import numpy as np

    found = [
        (float(getattr(each, across)), float(value))
        for each in run.scalars
        if (value := read(each)) is not None and abs(value) < HIGHEST  # Nor NaN.
    ]
    if not found:
        return None
    points = np.array(found)
    if len(points) > _POINTS:
        ends = points[0, 0], points[-1, 0]
        points = np.array([part.mean(axis=0) for part in np.array_split(points, _POINTS)])
        points[0, 0], points[-1, 0] = ends
    return points[:, 0], points[:, 1]


def _plot_group(axes: Any, curves: Sequence[Curve], style: dict[str, str], label: str) -> None:
    """Plot the seeds of one group. Mean and band end where the first of them does."""
    import numpy as np

    if len(curves) == 1:
        xs, ys = curves[0]
        axes.plot(xs, ys, label=label, marker="o" if len(xs) == 1 else None, **style)
        return
    for xs, ys in curves:
        axes.plot(xs, ys, linewidth=0.7, alpha=0.45, **style)
    start, end = max(xs[0] for xs, _ in curves), min(xs[-1] for xs, _ in curves)
    grid = np.linspace(start, end, _POINTS) if end > start else np.array([end])
    each = np.array([np.interp(grid, xs, ys) for xs, ys in curves])
    axes.fill_between(grid, each.min(0), each.max(0), color=style["color"], alpha=0.16, linewidth=0)
    axes.plot(grid, each.mean(axis=0), label=label, **style)


def _unit_of_time(seconds: float) -> tuple[float, str]:
    if seconds >= 3 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds >= 180 else (1.0, "seconds")


def time_picture(name: str, title: str, times: Sequence[RankTime]) -> Picture | None:
    """Plot the time of an iteration by phase and rank, as stacked bars; None of no times."""
    if not times:
        return None
    described = "; ".join(
        f"rank {rank}: " + ", ".join(f"{phase} {getattr(each, phase):.3g} s" for phase in PHASES)
        for rank, each in enumerate(times[:16])
    )

    def plot(axes: Any) -> None:
        bottom = [0.0] * len(times)
        for index, phase in enumerate(PHASES):
            heights = [getattr(each, phase) for each in times]
            axes.bar(range(len(times)), heights, bottom=bottom, color=color(index), label=phase)
            bottom = [one + more for one, more in zip(bottom, heights, strict=True)]
        axes.set_xticks(range(0, len(times), -(-len(times) // 12)))
        axes.set_xlim(-0.7, max(len(times), 4) - 0.3)
        axes.set_xlabel("rank", loc="right")
        axes.set_ylabel("seconds")

    return Picture(name, title, f"Time of an iteration, {title}. {described}.", plot)
