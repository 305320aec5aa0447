"""The runs that a report is about: those that the user named, and that have something to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.options import RunOptions
from rltrain.runs import Run, find_run, load_runs, real
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


def joined(runs: Sequence[Run]) -> list[Run]:
    """Return the runs, each of those that resumed another one of them as one with that."""
    whole: dict[Path, Run] = {}
    resumed: set[Path] = set()
    for run in sorted(runs, key=lambda run: run.metrics.started.time):
        checkpoint, folder = run.config.get("checkpoint"), run.manifest.get("folder")
        if isinstance(checkpoint, str) and isinstance(folder, str) and run.metrics.started.frames:
            before = whole.get(real(Path(folder, checkpoint)).parent.parent)
            if before is not None:
                resumed.add(before.path)
                run = _one(before, run)
        whole[run.path] = run
    return [whole[run.path] for run in runs if run.path not in resumed]


def _one(before: Run, after: Run) -> Run:
    """Return two runs as one: the first as far as the checkpoint, and the second."""
    first = after.scalars[0].iteration
    kept = [each for each in before.scalars if each.iteration < first]
    spent = kept[-1].seconds if kept else 0.0
    scalars = [*kept, *(replace(each, seconds=each.seconds + spent) for each in after.scalars)]
    started = replace(before.metrics.started, frames=after.metrics.started.frames)
    metrics = replace(after.metrics, started=started, scalars=scalars)
    return Run(after.path, metrics, after.manifest, after.name)
