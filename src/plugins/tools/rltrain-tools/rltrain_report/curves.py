"""Curves of runs: a thin line for each seed, their mean, and the band that they span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rltrain.records import Scalars
from rltrain.runs import Run
from rltrain_report.drawing import MUTED, RULE, Picture, color, dash
from rltrain_report.groups import Group
from rltrain_report.numbers import HIGHEST, number
from rltrain_report.timing import PHASES, RankTime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

_POINTS = 300
"""Most points of a line: of longer ones, neighbours are averaged."""

Read = Callable[[Scalars], float | None]


def curve_picture(
    name: str,
    title: str,
    groups: Sequence[Group],
    read: Read,
    across: str,
    targets: Sequence[float] = (),
) -> Picture | None:
    """Draw what each group recorded.

    Args:
        name: of the PNG file, without its suffix.
        title: of what is read.
        groups: of runs.
        read: returns the number to draw; None or NaN leaves a point out.
        across: "frames" or "seconds", the x axis.
        targets: values that runs were to reach, each drawn as a line across.

    Returns:
        The picture; None if there is nothing to draw.
    """

    def of(runs: Sequence[Run]) -> list[tuple[Floats, Floats]]:
        return [points for run in runs if (points := _points(run, read, across))]

    found = [(group, of(group.counted), of(group.others)) for group in groups]
    drawn = [(group, one or other, other) for group, one, other in found if one or other]
    if not drawn:
        return None
    end = max(float(xs[-1]) for _, one, other in drawn for xs, _ in (*one, *other))
    unit, label = (1.0, "frames") if across == "frames" else _unit_of_time(end)
    against = label if across == "frames" else "time"
    told = "; ".join(f"{group.label}: {_told(curves)}" for group, curves, _ in drawn)
    labels = [_label(group, len(curves)) for group, curves, _ in drawn]
    lines = {f"target {number(target)}": target for target in targets}
    alt = ". ".join([f"{title} against {against}", told, *lines]) + "."
    legend = [*labels, *lines] if len(groups) > 1 or lines else ()

    def draw(axes: Any) -> None:
        for (group, curves, others), text in zip(drawn, labels, strict=True):
            _draw(axes, [(xs / unit, ys) for xs, ys in curves], group.index, text)
            for xs, ys in others:
                axes.plot(xs / unit, ys, color=color(group.index), linestyle=":", linewidth=0.9)
        for text, target in lines.items():
            axes.axhline(target, color=MUTED, linestyle=(0, (6, 3)), linewidth=1.1, label=text)
        axes.set_xlabel(label, loc="right")
        axes.margins(x=0.01)
        for axis in (axes.xaxis, axes.yaxis):
            _set_ticks(axis)

    return Picture(name, title, alt, draw, legend)


def _label(group: Group, curves: int) -> str:
    return f"{group.label} (n={curves})"


def _told(curves: Sequence[tuple[Floats, Floats]]) -> str:
    first = sum(float(ys[0]) for _, ys in curves) / len(curves)
    last = sum(float(ys[-1]) for _, ys in curves) / len(curves)
    seeds = f", mean of {len(curves)} seeds" if len(curves) > 1 else ""
    return f"from {number(first)} to {number(last)}{seeds}"


def _points(run: Run, read: Read, across: str) -> tuple[Floats, Floats] | None:
    """Return what a run recorded as x and y; long lines are averaged."""
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


def _draw(axes: Any, curves: Sequence[tuple[Floats, Floats]], index: int, label: str) -> None:
    """Draw the seeds of one group. Mean and band end where the first of them does."""
    import numpy as np

    style = {"color": color(index), "linestyle": dash(index)}
    if len(curves) == 1:
        xs, ys = curves[0]
        axes.plot(xs, ys, label=label, marker="o" if len(xs) == 1 else None, **style)
        return
    for xs, ys in curves:
        axes.plot(xs, ys, linewidth=0.7, alpha=0.45, **style)
    start, end = max(xs[0] for xs, _ in curves), min(xs[-1] for xs, _ in curves)
    grid = np.linspace(start, end, _POINTS) if end > start else np.array([end])
    each = np.array([np.interp(grid, xs, ys) for xs, ys in curves])
    low, high = each.min(axis=0), each.max(axis=0)
    axes.fill_between(grid, low, high, color=color(index), alpha=0.16, linewidth=0)
    axes.plot(grid, each.mean(axis=0), label=label, **style)


def _set_ticks(axis: Any) -> None:
    """Write large numbers as 12k or 1.2M, and very small ones as 3e-05."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

    largest = max(map(abs, axis.get_view_interval()))
    axis.set_major_locator(MaxNLocator(6))
    if largest >= 10_000:
        axis.set_major_formatter(EngFormatter(sep=""))
    elif largest < 1e-3:
        axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:.2g}"))


def _unit_of_time(seconds: float) -> tuple[float, str]:
    if seconds >= 3 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds >= 180 else (1.0, "seconds")


def time_picture(
    name: str, title: str, ranks: Sequence[RankTime], labels: Sequence[str] = ()
) -> Picture | None:
    """Draw the time of an iteration by phase and rank, as stacked bars.

    Args:
        name: of the PNG file, without its suffix.
        title: of the picture.
        ranks: their times.
        labels: instead of the ranks' numbers, for means of several runs' ranks.

    Returns:
        The picture; None if there is nothing to draw.
    """
    if not ranks:
        return None
    alt = "; ".join(
        f"{'ranks' if labels else 'rank'} {labels[rank] if labels else rank}: "
        + ", ".join(f"{phase} {getattr(each, phase):.3g} s" for phase in PHASES)
        for rank, each in enumerate(ranks[:16])
    )
    alt = f"Time of an iteration, {title}. {alt}{' and so on' if ranks[16:] else ''}."

    def draw(axes: Any) -> None:
        from matplotlib.ticker import EngFormatter

        bottom = [0.0] * len(ranks)
        for phase, index in zip(PHASES, (0, 1, 7, 3), strict=True):
            heights = [getattr(each, phase) for each in ranks]
            axes.bar(
                *(range(len(ranks)), heights),
                **{"bottom": bottom, "color": color(index), "label": phase},
                **{"width": 0.72, "edgecolor": RULE, "linewidth": 0.4},
            )
            bottom = [one + more for one, more in zip(bottom, heights, strict=True)]
        ticks = range(0, len(ranks), 1 if labels else -(-len(ranks) // 12))
        axes.set_xticks(ticks, labels or [str(tick) for tick in ticks])
        axes.set_xlim(-0.7, max(len(ranks), 4) - 0.3)
        axes.set_xlabel("ranks" if labels else "rank", loc="right")
        axes.yaxis.set_major_formatter(EngFormatter(unit="s"))

    return Picture(name, title, alt, draw, PHASES)
