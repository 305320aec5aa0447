"""The panel of the live view."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rltrain.builtin.console import RunState, duration, number, percent, shortest, speed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

WIDEST = 140
"""Columns of the panel at most."""
_COLUMNS = 72, 120
"""Columns from which on there are scalars beside the progress, and from which on twice as many."""
_PREFERRED = (r"learning.?rate|(?<![a-z])lr(?![a-z])", "loss", "kl|entropy", "")
"""Patterns of the scalar names that come first, in this order."""
_DISPENSABLE = (
    "preface",
    "scalars",
    "run folder",
    "heading",
    "time",
    "length",
    "frames",
    "waiting",
)
"""What a low terminal does without, in this order."""
_WARNINGS = 2
"""How many warnings are in the panel."""


LOWEST = len(_DISPENSABLE) + 1
"""The last level: a single line."""


def panel(run: RunState, width: int, level: int = 0) -> RenderableType:
    """Return the panel.

    Args:
        run: the state of the run.
        width: of the panel.
        level: the higher, the lower is the panel; up to `LOWEST`.
    """
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    if level == LOWEST:
        return _line(run)
    without = _DISPENSABLE[:level]
    heading = [] if "heading" in without else [run.heading]
    heading += [] if "preface" in without else run.preface
    color = {"training": "blue", "failed": "red"}.get(run.status, "green")
    body: list[RenderableType] = [Text("\n".join(heading))] if heading else []
    body += [_bar(run, color)] if run.latest.iterations else []
    body += _tables(run, width, without)
    body += [Text(text, style="yellow") for text in _warnings(run)]
    return Panel(
        Group(*body),
        title=Text(run.started.task),
        title_align="left",
        subtitle=Text(run.end),
        subtitle_align="right",
        border_style=color,
        width=width,
    )


def _tables(run: RunState, width: int, without: Collection[str]) -> list[RenderableType]:
    progress = [row for row in _progress(run) if row[0] not in without]
    rest = [row for row in _rest(run) if row[0] not in without]
    scalars, height = _scalars(run), len(progress)
    columns = 0 if "scalars" in without else sum(width >= least for least in _COLUMNS)
    blocks = [scalars[i * height : (i + 1) * height] for i in range(columns)]
    return [_beside(progress, *blocks), _beside(rest)]


def _line(run: RunState) -> RenderableType:
    from rich.text import Text

    words = f"iteration {run.iteration}", f"return {number(run.latest.episode_return)}"
    text = "  ".join([*words, run.left(run.elapsed), *_warnings(run)[-1:]])
    return Text(text, no_wrap=True, overflow="ellipsis")


def _progress(run: RunState) -> list[tuple[str, str]]:
    now, best = run.latest, run.best
    found = f"{number(best.episode_return)} in iteration {best.iteration}" if best else "-"
    rows = [("iteration", run.iteration), ("return", number(now.episode_return)), ("best", found)]
    rows.append(("length", number(now.episode_length)))
    if now.success_rate is not None:
        rows.append(("success", percent(now.success_rate)))
    return [*rows, ("frames", f"{now.frames:,}")]


def _rest(run: RunState) -> list[tuple[str, str]]:
    rows = [("fps", speed(run.latest.fps))]
    if run.shares is not None:
        rows.append(("waiting", f"{run.shares} of the ranks' time"))
    rows.append(("time", duration(run.elapsed)))
    if run.checkpoint is not None:
        words = [Path(run.checkpoint.path).name, f"iteration {run.checkpoint.iteration}"]
        if run.ended is None:
            words.append(f"{duration(time.monotonic() - run.saved)} ago")
        rows.append(("checkpoint", "  ".join(words)))
    return [*rows, ("run folder", shortest(run.started.run_dir))]


def _scalars(run: RunState) -> list[tuple[str, str]]:
    values = run.latest.values
    return [(name, number(values[name])) for name in sorted(values, key=_preference)]


def _warnings(run: RunState) -> list[str]:
    shown = run.warnings[-_WARNINGS:]
    lines = [f"warning in iteration {warning.iteration}: {warning.text}" for warning in shown]
    more = len(run.warnings) - len(shown)
    return [f"earlier warnings, above: {more}", *lines] if more else lines


def _bar(run: RunState, color: str) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    now = run.latest
    bar = ProgressBar(now.iterations, now.iteration, complete_style=color, finished_style=color)
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(ratio=1)
    line.add_row(bar, Text(percent(now.iteration / (now.iterations or 1))), run.left(run.elapsed))
    return line


def _beside(progress: Sequence[tuple[str, str]], *scalars: Sequence[tuple[str, str]]) -> Table:
    """Return names and values, with the scalars beside them."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="dim", width=10)
    grid.add_column(ratio=1, overflow="fold")
    for _ in scalars:
        grid.add_column(style="dim", ratio=1, no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
    for row in zip_longest(progress, *scalars, fillvalue=("", "")):
        grid.add_row(*(Text(text) for pair in row for text in pair))
    return grid


def _preference(name: str) -> int:
    return [bool(re.search(pattern, name, re.IGNORECASE)) for pattern in _PREFERRED].index(True)
