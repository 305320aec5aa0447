"""The panel of the live view."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.builtin.console import RunState, duration, number, shortest, speed
from rltrain.terminal import plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

WIDEST = 140
"""Columns of the panel at most."""
_COLUMNS = 72, 120
"""Columns from which on there are scalars next to the progress, and from which on twice as many."""
_PREFERRED = (r"learning.?rate|(?<![a-z])lr(?![a-z])", "loss", "kl|entropy", "")
"""Patterns of the scalar names that come first, in this order."""
_WARNINGS = 2
"""How many warnings are in the panel."""


def panel(run: RunState, width: int) -> RenderableType:
    """Return the panel of a run, on a terminal of this width."""
    from rich.console import Group
    from rich.panel import Panel

    color = {"training": "blue", "failed": "red"}.get(run.status, "green")
    body: list[RenderableType] = [_text("\n".join([run.heading, *run.preface]))]
    body += [_bar(run, color)] if run.latest.iterations else []
    progress, scalars = _progress(run), _scalars(run)
    height, columns = len(progress), sum(width >= least for least in _COLUMNS)
    blocks = [scalars[i * height : (i + 1) * height] for i in range(columns)]
    body += [_table(progress, *blocks), _table(_rest(run))]
    body += [_text(text, style="yellow") for text in _warnings(run)]
    return Panel(
        Group(*body),
        title=_text(run.started.task),
        title_align="left",
        subtitle=_text(run.end),
        subtitle_align="right",
        border_style=color,
        width=min(width, WIDEST),
    )


def line(run: RunState) -> RenderableType:
    """Return a line, for a low terminal."""
    words = f"iteration {run.iteration}", f"return {number(run.latest.episode_return)}"
    text = "  ".join([*words, run.left(run.elapsed), *_warnings(run)[-1:]])
    return _text(text, no_wrap=True, overflow="ellipsis")


def _text(text: str, **fields: Any) -> Text:
    """Return text of others, without what would control the terminal."""
    from rich.text import Text

    return Text(plain(text), **fields)


def _progress(run: RunState) -> list[tuple[str, str]]:
    now, best = run.latest, run.best
    found = f"{number(best.episode_return)} in iteration {best.iteration}" if best else "-"
    rows = [("iteration", run.iteration), ("return", number(now.episode_return)), ("best", found)]
    rows.append(("length", number(now.episode_length)))
    if now.success_rate is not None:
        rows.append(("success", f"{now.success_rate:.0%}"))
    return [*rows, ("frames", f"{now.frames:,}")]


def _rest(run: RunState) -> list[tuple[str, str]]:
    rows = [("fps", speed(run.latest.fps))]
    if run.shares:
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

    now = run.latest
    bar = ProgressBar(now.iterations, now.iteration, complete_style=color, finished_style=color)
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(ratio=1)
    grid.add_row(bar, f"{now.iteration / (now.iterations or 1):.0%}", run.left(run.elapsed))
    return grid


def _table(progress: Sequence[tuple[str, str]], *scalars: Sequence[tuple[str, str]]) -> Table:
    """Return names and values, with the scalars next to them."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="dim", width=10)
    grid.add_column(ratio=1, overflow="fold")
    for _ in scalars:
        grid.add_column(style="dim", ratio=1, no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
    for row in zip_longest(progress, *scalars, fillvalue=("", "")):
        grid.add_row(*(_text(text) for pair in row for text in pair))
    return grid


def _preference(name: str) -> int:
    return [bool(re.search(pattern, name, re.IGNORECASE)) for pattern in _PREFERRED].index(True)
