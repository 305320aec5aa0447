"""Runs: found by a word, and read from their run folders. For commands.

for path in all_runs("logs"):
(run,) = load_runs([path])
print(run.name, run.outcome, run.best_return, run.checkpoint("best"))
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.builtin.console import shortest
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.records import Scalars
from rltrain.run.restarts import STORY
from rltrain.storage.checkpoints import INDEX, saved_checkpoints, states_of
from rltrain.storage.finding import all_checkpoints, checkpoint_of_run, newest_of_run
from rltrain.storage.fitting import check_fields
from rltrain.storage.manifest import read_manifest, versions
from rltrain.storage.metrics_file import METRICS, RunMetrics, read_metrics
from rltrain.storage.run_folder import RunFolder, check_writable
from rltrain.watch.profile import PROFILE
from rltrain_files.disk import NotWritten
from rltrain_files.reading import changed_at, digest, no_file, read_bytes, read_text, real
from rltrain_files.run_files import check_inside
from rltrain_files.terminal import note

__all__ = [
    "INDEX",
    "PROFILE",
    "NotWritten",
    "Run",
    "RunFolder",
    "RunMetrics",
    "all_runs",
    "check_fields",
    "check_inside",
    "check_writable",
    "common_folder",
    "digest",
    "find_run",
    "load_runs",
    "newest_of_run",
    "read_bytes",
    "read_text",
    "real",
    "saved_checkpoints",
    "shortest",
    "states_of",
    "versions",
]

_LARGEST_STORY = 16 << 20
"""Bytes of the story of restarts that is read."""


@dataclass(frozen=True)
class Run:
    """A run folder, as it was when it was read: the run may still train."""

    path: Path
    metrics: RunMetrics
    manifest: Mapping[str, Any]
    """Empty if the user has removed it."""
    name: str
    """What it is called here: the run folder, or that below the one of all runs."""

    @property
    def scalars(self) -> Sequence[Scalars]:
        """What was recorded after each iteration."""
        return self.metrics.scalars

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved run; empty if it is not known."""
        found: Mapping[str, Any] = self.manifest.get("config", {})
        return found

    @property
    def seconds(self) -> float:
        """How long it has trained."""
        return self.scalars[-1].seconds if self.scalars else 0.0

    @property
    def best_return(self) -> float | None:
        """The highest mean return that was recorded."""
        found = [each.episode_return for each in self.scalars if each.episode_return is not None]
        return max(found, default=None)

    @property
    def target_return(self) -> float | None:
        """The return at which it was to end; None if none was given."""
        found: Any = self.config.get("target_return")
        usable = type(found) in (int, float) and abs(found) <= sys.float_info.max
        return float(found) if usable else None

    @property
    def outcome(self) -> str:
        """How the run ended, in a word."""
        ended = self.metrics.ended
        if ended is None:
            return "still training, or killed"
        if ended.error is not None:
            return "interrupted" if ended.error.startswith("KeyboardInterrupt") else "failed"
        return "stopped" if ended.asked else "solved" if ended.solved else "finished"

    def checkpoints(self) -> list[Path]:
        """Return its checkpoints that are still there, in the order of saving."""
        return all_checkpoints(self.path, note)

    def checkpoint(self, which: str = "latest") -> Path:
        """Return one of its checkpoints, that is not damaged.

        Args:
            which: "latest", "best", or the iteration after which it was saved.

        Raises:
            UsageError: the run has not saved it.
        """
        return checkpoint_of_run(self.path, which, note)

    def restarts(self) -> list[str]:
        """Return the failures after which the ranks were started again, and the last one."""
        try:
            failures = json.loads(read_text(self.path / STORY, _LARGEST_STORY, self.path))
            return [
                f"failed after iteration {each['iteration']}: {each['error']}; {each['then']}"
                for each in failures
            ]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return []  # There were none, or the user has changed the file.


def all_runs(log_root: str = RunOptions.log_root) -> list[Path]:
    """Return the run folders below a log root, the newest first."""
    files = real(log_root).glob(f"*/*/*/{METRICS}")
    found = sorted(files, key=changed_at, reverse=True)
    return [path.parent for path in found]


def find_run(word: str, log_root: str = RunOptions.log_root) -> Path:
    """Return the run folder that a word means.

    Args:
        word: a run folder, a checkpoint in one, or "latest".
        log_root: where the latest run is looked for.

    Raises:
        UsageError: it is not there, or is no run folder.
    """
    if word == "latest":
        found = all_runs(log_root)
        if not found:
            raise UsageError(
                f"latest: there is no run below {log_root}. Name a run folder, or the --log-root "
                "of the run."
            )
        return found[0]
    path = Path(os.path.abspath(os.path.expanduser(word)))
    if os.path.isfile(path):  # Path.is_file raises if the name is too long.
        path = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    elif not os.path.isdir(path):
        raise UsageError(
            f"{word}: {no_file(path, 'is not there')}. Name a run folder, a checkpoint in one, or "
            "latest."
        )
    if not (path / METRICS).is_file():
        raise UsageError(f"{word}: is no run folder: {METRICS} is missing. {_instead(path)}")
    return path


def _instead(path: Path) -> str:
    """Return what to name instead of a folder that is not a run's."""
    for pattern in ("*", "*/*", "*/*/*"):
        count = sum(1 for _ in path.glob(f"{pattern}/{METRICS}"))
        if count:
            runs = f"{shlex.quote(shortest(path))}/{pattern}"
            return f"Below it are {count} of them: name one, or all by {runs}."
    return "Runs of rltrain 0.1.0 and of other programs have none; train again, or name another."


def load_runs(paths: Iterable[Path]) -> list[Run]:
    """Read run folders.

    Args:
        paths: the folders; see `find_run`.

    Raises:
        UsageError: one is not a run's, or its metrics are damaged.
    """
    paths = list(paths)
    base = common_folder(paths)
    return [_read(path, str(path.relative_to(base)) if base else shortest(path)) for path in paths]


def common_folder(paths: Sequence[Path]) -> Path | None:
    """Return the folder that all of several run folders are in; None of a single one."""
    return Path(os.path.commonpath([path.parent for path in paths])) if len(paths) > 1 else None


def _read(path: Path, name: str) -> Run:
    return Run(path, read_metrics(path), read_manifest(path) or {}, name)
