"""What `rltrain evaluate` found of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.runs import Run
from rltrain_play import Evaluated, read_evaluations
from rltrain_report.numbers import number
from rltrain_report.page import Table, Text

_NOTE = (
    "Episodes of the policy alone, after training, with 95 % bootstrap intervals. The "
    "interquartile mean (IQM) is that of the middle half of the episodes."
)


def evaluation_blocks(runs: Sequence[Run]) -> list[Any]:
    """Return a table with a row for each evaluation; nothing if there were none."""
    rows = [
        (run.name, *_row(each, run.config.get("task", each.task)))
        for run in runs
        for each in read_evaluations(run.path)
    ]
    if not rows:
        return []
    head = ("run", "checkpoint", "episodes", "seeds", "return", "IQM", "length", "success", "on")
    return [Table(head, rows, numbers=(2, 4, 5, 6, 7)), Text([_NOTE])]


def _row(found: Evaluated, trained: str) -> tuple[str, ...]:
    other = "" if found.task in ("", trained) else f", on {found.task}"
    return (
        f"{found.checkpoint}{other}",
        f"{found.episodes:,}",
        " ".join(map(str, found.seeds)),
        _bounded(found.returns, found.returns_interval),
        _bounded(found.iqm, found.iqm_interval),
        number(found.length),
        "-" if found.success is None else f"{found.success:.1%}",
        found.time.replace("T", " ")[:16],
    )


def _bounded(value: float, bounds: Sequence[float]) -> str:
    return f"{number(value)} ({' to '.join(map(number, bounds))})"
