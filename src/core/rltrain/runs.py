"""Runs: found by a word, and read from their run folders. For commands.

for path in all_runs("logs"):
    (run,) = load_runs([path])
    print(run.name, run.outcome, run.best_return, run.checkpoint("best"))
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rltrain.builtin.console import shortest
from rltrain.files.disk import PARTIAL, NotWritten
from rltrain.files.reading import read_bytes, read_text, real
from rltrain.options.run import RunOptions
from rltrain.storage import run as folders
from rltrain.storage.checkpoint import INDEX, Checkpoint, states_of
from rltrain.storage.manifest import versions
from rltrain.storage.metrics_file import read_metrics
from rltrain.storage.run import Run
from rltrain.storage.run_folder import RunFolder, check_writable
from rltrain.storage.run_options import check_inside

__all__ = [
    "INDEX",
    "PARTIAL",
    "Checkpoint",
    "NotWritten",
    "Run",
    "RunFolder",
    "all_runs",
    "check_inside",
    "check_writable",
    "common_folder",
    "find_run",
    "load_runs",
    "read_bytes",
    "read_text",
    "real",
    "shortest",
    "states_of",
    "versions",
]

_OTHERS = "Runs of other programs have none; train again, or name another."


def all_runs(log_root: str = RunOptions.log_root) -> list[Path]:
    """Return the run folders below a log root, the newest first."""
    return folders.newest_first(log_root)


def find_run(word: str, log_root: str = RunOptions.log_root) -> Path:
    """Return the run folder that a word means: a run folder, a checkpoint in one, or "latest".

    Raises:
        UsageError: it is not there, or is no run folder.
    """
    run, _ = folders.find_run(word, {"log_root": log_root}, instead=_OTHERS, trained=False)
    return run.path


def load_runs(paths: Iterable[Path]) -> list[Run]:
    """Read run folders.

    Raises:
        UsageError: one is not a run's, or its metrics are damaged.
    """
    paths = list(paths)
    base = common_folder(paths)
    names = [str(path.relative_to(base)) if base else shortest(path) for path in paths]
    return [
        Run(path, read_metrics(path), name=name) for path, name in zip(paths, names, strict=True)
    ]


def common_folder(paths: Sequence[Path]) -> Path | None:
    """Return the folder that all of several run folders are in; None of a single one."""
    return Path(os.path.commonpath([path.parent for path in paths])) if len(paths) > 1 else None
