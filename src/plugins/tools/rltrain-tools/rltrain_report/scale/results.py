"""The results of an experiment: its table, and its page."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from rltrain.builtin.console import duration
from rltrain.terminal import one_line
from rltrain_report.checks import check_blocks, warning_blocks
from rltrain_report.curves import curve_picture, time_picture
from rltrain_report.drawing import Picture, color
from rltrain_report.environment import environment_section
from rltrain_report.groups import Group
from rltrain_report.numbers import number, spread
from rltrain_report.page import Page, Pictures, Section, Table, Text
from rltrain_report.scale.sizes import Size, also_differing
from rltrain_report.scale.words import reasons
from rltrain_report.timing import PHASES, RankTime


def result_table(sizes: Sequence[Size]) -> Table:
    """Return a row for each number of ranks."""
    last = sizes[0]
    head = ["ranks", "environments", "seeds", "fps", "efficiency", "waiting", "communication"]
    head.append(f"return at {last.equal_frames:,} frames")
    if last.target is not None:
        head.append(f"time to {last.target:g}")
    if any(size.num_nodes > 1 for size in sizes):
        head.insert(1, "nodes")
    rows = []
    for size in sizes:
        row = [
            str(size.ranks),
            f"{size.runs[0].metrics.started.num_envs:,} a rank",
            str(len(size.runs)),
            spread(size.fps, number),
            f"{size.efficiency:.0%}",
            _share(size, lambda each: each.waiting),
            _share(size, lambda each: each.communication),
            spread(size.equal_return, number),
        ]
        if size.target is not None:
            missed = len(size.runs) - len(size.seconds_to_target)
            row.append(
                spread(size.seconds_to_target, duration) + (f", {missed} not" if missed else "")
            )
        if "nodes" in head:
            row.insert(1, str(size.num_nodes))
        rows.append(row)
    return Table(head, rows, numbers=range(len(head)))


def as_markdown(table: Table) -> str:
    """Return a table as lines of text, which a page in Markdown takes, too."""
    rows = [[one_line(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"| {' | '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    ]
    rule = "|".join("-" * (width + 1) + ":" for width in widths)
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def scale_page(sizes: Sequence[Size], mode: str) -> Page:
    """Return the page of an experiment."""
    runs = [run for size in sizes for run in size.runs]
    started = runs[0].metrics.started
    explained = {
        "weak": "Each rank has the same number of environments, so more ranks do more.",
        "strong": "All ranks together have the same number of environments, which they share.",
    }[mode]
    differing = also_differing(runs)
    caution = [f"The runs differ in more: {', '.join(differing)}."] if differing else []
    note = (
        "Frames a second (fps) are those of all ranks together: the median over iterations without "
        "the first ones, the mean over seeds with the lowest and the highest. Efficiency is fps a "
        f"rank, as a share of that of {sizes[0].ranks} "
        f"rank{'s' if sizes[0].ranks > 1 else ''}. Waiting and communication are shares of an "
        "iteration."
    )
    groups = [
        Group(f"{size.ranks} rank{'s' if size.ranks > 1 else ''}", index, size.runs)
        for index, size in enumerate(sizes)
    ]
    warnings = warning_blocks(runs)
    return Page(
        title=f"{started.task} on {_list([str(size.ranks) for size in sizes])} ranks",
        lead=f"{started.library} {started.algorithm}, {mode} scaling. {explained}",
        sections=[
            Section("Result", [result_table(sizes), Text([note]), Text(caution, "bad")], "result"),
            Section("Why it is not faster", [Text(reasons(sizes, mode))], "why"),
            Section("Speed", [Pictures(_speed(sizes))], "speed"),
            Section("Learning", _learning(groups), "learning"),
            Section("Time of an iteration, by rank", [Pictures(_by_rank(sizes))], "time"),
            Section("Divergence checks", check_blocks(runs), "checks"),
            environment_section(runs),
            *([Section("Warnings and errors", warnings, "warnings")] if warnings else []),
        ],
        foot=f"Written by rltrain scale on {time.strftime('%Y-%m-%d %H:%M')}.",
    )


def _learning(groups: Sequence[Group]) -> list[Any]:
    drawn = [
        curve_picture(
            f"return-{across}", "Return", groups, lambda each: each.episode_return, across
        )
        for across in ("frames", "seconds")
    ]
    note = "A thick line is the mean over n seeds; the band is from the lowest to the highest seed."
    return [Pictures([each for each in drawn if each is not None]), Text([note])]


def _speed(sizes: Sequence[Size]) -> list[Picture]:
    perfect = [sizes[0].mean_fps / sizes[0].ranks * size.ranks for size in sizes]
    drawn = [
        _over_ranks("fps", "Frames a second", sizes, [size.fps for size in sizes], perfect),
        _over_ranks(
            "efficiency",
            "Efficiency",
            sizes,
            [[size.efficiency] for size in sizes],
            [1.0] * len(sizes),
        ),
    ]
    if all(size.times for size in sizes):
        drawn.append(_iterations(sizes))
    if all(size.seconds_to_target for size in sizes):
        seconds = [size.seconds_to_target for size in sizes]
        perfect = [statistics.fmean(seconds[0]) * sizes[0].ranks / size.ranks for size in sizes]
        title = f"Seconds to a return of {sizes[0].target:g}"
        drawn.append(_over_ranks("time-to-target", title, sizes, seconds, perfect))
    return drawn


def _over_ranks(
    name: str,
    title: str,
    sizes: Sequence[Size],
    values: Sequence[Sequence[float]],
    perfect: Sequence[float],
) -> Picture:
    """Draw a quantity over the number of ranks, with what would be perfect."""
    means = [statistics.fmean(each) for each in values]
    told = ", ".join(
        f"{size.ranks} ranks {number(mean)}" for size, mean in zip(sizes, means, strict=True)
    )
    places = range(len(sizes))

    def draw(axes: Any) -> None:
        from matplotlib.ticker import EngFormatter, PercentFormatter

        axes.plot(places, perfect, color=color(7), linestyle="--", linewidth=1.2, label="perfect")
        axes.plot(places, means, color=color(0), marker="o", markersize=4, label="measured")
        for place, each in zip(places, values, strict=True):
            axes.plot(
                [place, place], [min(each), max(each)], color=color(0), linewidth=3, alpha=0.4
            )
        axes.set_xticks(places, [str(size.ranks) for size in sizes])
        axes.set_xlabel("ranks", loc="right")
        axes.set_xlim(-0.3, len(sizes) - 0.7)
        axes.set_ylim(bottom=0)
        percent = name == "efficiency"
        axes.yaxis.set_major_formatter(PercentFormatter(1.0) if percent else EngFormatter(sep=""))

    alt = f"{title} by number of ranks: {told}."
    return Picture(name, title, alt, draw, ("measured", "perfect"))


def _iterations(sizes: Sequence[Size]) -> Picture:
    """Draw the time of an iteration by phase, the mean over ranks, over the number of ranks."""
    means = [RankTime(*(size.mean(_of(phase)) for phase in PHASES)) for size in sizes]
    labels = [str(size.ranks) for size in sizes]
    drawn = time_picture("iteration", "Time of an iteration, mean over ranks", means, labels)
    assert drawn is not None, "there are times"
    return drawn


def _by_rank(sizes: Sequence[Size]) -> list[Picture]:
    drawn = [
        time_picture(f"time-{size.ranks}-ranks", f"{size.ranks} ranks", size.times)
        for size in sizes
        if size.ranks > 1
    ]
    return [each for each in drawn if each is not None]


def _of(phase: str) -> Callable[[RankTime], float]:
    return lambda each: float(getattr(each, phase))


def _share(size: Size, read: Callable[[RankTime], float]) -> str:
    if not size.times:
        return "-"
    return f"{size.mean(read) / max(size.mean(lambda each: each.whole), 1e-12):.0%}"


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
