"""The runs that a report is about: those that the user named, and that have something to show."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.errors import UsageError
from rltrain.options import RunOptions
from rltrain.runs import Run, find_run, load_runs
from rltrain.terminal import note, one_line

__all__ = ["read_runs"]


def read_runs(words: Iterable[str], log_root: str = RunOptions.log_root) -> list[Run]:
    """Read the runs that the user named, each once.

    Args:
        words: run folders, checkpoints in them, or "latest".
        log_root: where the latest run is looked for.

    Raises:
        UsageError: a run is not there, or none has recorded an iteration.
    """
    runs = load_runs(dict.fromkeys(find_run(word, log_root) for word in words))
    shown = [run for run in runs if run.scalars]
    for run in runs:
        if not run.scalars:
            note(one_line(f"{run.name} is left out: {_why_empty(run)}"))
    if not shown:
        raise UsageError("There is nothing to show: no run has recorded an iteration.")
    return shown


def _why_empty(run: Run) -> str:
    ended = run.metrics.ended
    if ended is None or ended.error is None:
        return "it has recorded no iteration yet."
    return f"it failed before its first iteration: {ended.error.splitlines()[0]}"
