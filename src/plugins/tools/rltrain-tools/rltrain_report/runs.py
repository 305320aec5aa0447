"""The runs that a report is about: those that the user named, and that have something to show."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.errors import UsageError
from rltrain.options import RunOptions
from rltrain.runs import Run, find_run, load_runs
from rltrain.terminal import note, one_line


def read_runs(words: Iterable[str], log_root: str = RunOptions.log_root) -> list[Run]:
    """Read the runs that the user named, each once; those without an iteration are left out."""
    runs = load_runs(dict.fromkeys(find_run(word, log_root) for word in words))
    for run in runs:
        if not run.scalars:
            ended = run.metrics.ended
            why = "it has recorded no iteration yet."
            if ended is not None and ended.error is not None:
                why = f"it failed before its first iteration: {ended.error.splitlines()[0]}"
            note(one_line(f"{run.name} is left out: {why}"))
    shown = [run for run in runs if run.scalars]
    if not shown:
        raise UsageError("There is nothing to show: no run has recorded an iteration.")
    return shown
