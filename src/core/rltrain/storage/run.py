"""A run folder: which is meant, what it says of itself, and which of its checkpoints.

Words mean the same for every command, and in Python. A run: its folder, a checkpoint in it, or
"latest". A checkpoint: a file; or of a run "latest", "best" or the iteration after which it was
saved.
"""

from __future__ import annotations

import functools
import math
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.data import parse_json
from rltrain.errors import UsageError
from rltrain.files.reading import changed_at, no_file, read_text, real
from rltrain.options.run import RunOptions
from rltrain.records import Scalars
from rltrain.storage.checkpoint import (
    INDEX,
    Checkpoint,
    DamagedCheckpoint,
    by_return,
    saved_checkpoints,
)
from rltrain.storage.manifest import read_manifest
from rltrain.storage.metrics_file import METRICS, RunMetrics, read_metrics
from rltrain.storage.run_folder import task_folder
from rltrain.terminal import note

if TYPE_CHECKING:
    from rltrain.config import RunConfig

STORY = "restarts.json"
"""In the run folder: the failures of a run with --max-restarts, in order."""

_LARGEST_STORY = 16 << 20
"""Bytes of the story of restarts that is read."""


class Run:
    """A run folder, as it was when it was read: the run may still train.

    `name` is what it is called here: the run folder, or that below the one of all runs. Links of
    checkpoints out of the folder are followed, and their code is run, only where they are trusted.
    """

    def __init__(
        self,
        path: Path,
        metrics: RunMetrics | None = None,
        name: str = "",
        *,
        trusted: bool = False,
        warn: Callable[[str], None] = note,
    ) -> None:
        """Name the folder, what was read of it, and what is called with warnings."""
        self.path, self.name = path, name
        if metrics is not None:
            self.metrics = metrics
        self._trusted, self._warn = trusted, warn

    @functools.cached_property
    def metrics(self) -> RunMetrics:
        """What it has recorded; `UsageError` if that is damaged."""
        return read_metrics(self.path)

    @functools.cached_property
    def manifest(self) -> Mapping[str, Any]:
        """Empty if the user has removed it."""
        return read_manifest(self.path) or {}

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
        found = self.config.get("target_return")
        return found if isinstance(found, float) and math.isfinite(found) else None

    @property
    def outcome(self) -> str:
        """How the run ended, in a word."""
        ended = self.metrics.ended
        return "still training, or killed" if ended is None else ended.outcome

    def restarts(self) -> list[str]:
        """Return the failures after which the ranks were started again, and the last one."""
        try:
            failures = parse_json(read_text(self.path / STORY, _LARGEST_STORY, self.path))
            return [
                f"failed after iteration {each['iteration']}: {each['error']}; {each['then']}"
                for each in failures
            ]
        except (OSError, ValueError, LookupError, TypeError):
            return []  # There were none, or the user has changed the file.

    def checkpoints(self) -> list[Checkpoint]:
        """Return its checkpoints that are still there, in the order of saving."""
        return list(self._present(saved_checkpoints(self.path, self._warn)))

    def checkpoint(self, which: str = "latest", named: str = "") -> Checkpoint:
        """Return one of its checkpoints, that is not damaged.

        Args:
            which: "latest", "best", or the iteration after which it was saved.
            named: what the user has typed for it, for messages.

        Raises:
            UsageError: the run has not saved it.
        """
        if found := self.find(which):
            return found
        entries = saved_checkpoints(self.path, self._warn)
        saved = textwrap.shorten(", ".join(str(each["iteration"]) for each in entries), 200)
        there = (
            f"It has saved iteration(s) {saved}."
            if entries
            else f"It has saved none yet. To repeat it: --config {self.path / 'config.yaml'}."
        )
        named = named or f"--checkpoint {which}"
        raise UsageError(f"{named}: the run {self.path} has no such checkpoint. {there}")

    def find(self, which: str = "latest") -> Checkpoint | None:
        """Return what `checkpoint` does, or None."""
        entries = saved_checkpoints(self.path, self._warn)
        if which == "best":
            entries = by_return(entries)
        elif which != "latest":
            entries = [each for each in entries if str(each["iteration"]) == which]
        for checkpoint in self._present(entries[::-1]):
            try:
                checkpoint.check()
                return checkpoint
            except DamagedCheckpoint as error:
                self._warn(f"passing over {checkpoint}: {error.what}.")
            except UsageError:
                return checkpoint  # It names code: that is said where it is loaded.
        return None

    def _present(self, entries: Sequence[Mapping[str, Any]]) -> Iterator[Checkpoint]:
        """Yield those that are there, each once."""
        folder = self.path / "checkpoints"
        iterations = {entry["name"]: entry["iteration"] for entry in reversed(entries)}
        for name in dict.fromkeys(entry["name"] for entry in entries):
            path = folder / name
            if not self._trusted and not real(path).is_relative_to(real(self.path)):
                self._warn(
                    f"passing over {name!a}: it leads out of {folder}. If it is yours, or you "
                    "trust who wrote it, add --trust."
                )
            elif os.path.isfile(path):
                yield Checkpoint(path, self._trusted, iterations[name])
            else:
                self._warn(f"passing over {path}: it {no_file(path, 'was renamed or removed')}.")


CHOICES = ("latest", "best")
"""What `--checkpoint` accepts besides a path; where a run is named, an iteration besides."""

_OPTIONS = ("config.yaml", "agent.yaml")
"""What a run folder has from which a run continues, or a policy is loaded."""


def find_run(
    word: str, given: Mapping[str, Any], *, option: str = "", instead: str, trained: bool = True
) -> tuple[Run, Checkpoint | None]:
    """Return the run that a word means, and the checkpoint if it is one's file.

    Of the user's options, `log_root`, `library` and `task` say which runs "latest" means. A run
    that is not `trained` needs to have recorded something, but no options and no checkpoint.
    `option` and `instead` are for messages: what the word was given to, and what to do else.
    """
    named, checkpoint = f"{option} {word}".lstrip(), None
    trusted, path = bool(given.get("trust")), real(word)
    if word == "latest":
        having = INDEX if trained else METRICS
        log_root = given.get("log_root") or RunOptions.log_root
        runs = newest_first(log_root, given.get("library"), given.get("task"), having)
        if not runs:
            has = "saved a checkpoint" if trained else "recorded anything"
            raise UsageError(
                f"{named}: no such run below {log_root} has {has}. Name a run folder, or the "
                "--log-root of the run."
            )
        folder = runs[0]
    elif os.path.isfile(path):
        folder, checkpoint = path.parent.parent, Checkpoint(path, trusted)
    elif os.path.isdir(path):
        folder = path
    else:
        raise UsageError(
            f"{named}: {no_file(path, 'is not there')}. Name a run folder, a checkpoint in one, or "
            "latest."
        )
    for name in _OPTIONS if trained else (METRICS,):
        if not (folder / name).is_file():
            raise UsageError(f"{named}: is no run folder: {name} is missing. {instead}")
    if checkpoint is not None and path.parent.name != "checkpoints":
        raise UsageError(f"{named}: is no checkpoint. {instead}")
    return Run(folder, trusted=trusted), checkpoint


def find_checkpoint(config: RunConfig, warn: Callable[[str], None]) -> Checkpoint | None:
    """Return the checkpoint that a run starts from, or None for the beginning.

    With --auto-resume that is the latest of the runs with this run's name, if there is one. Else
    --checkpoint is a file, which may not be there, or the latest or best of the task's newest run
    that has one: "best" has the highest mean return over the last episodes when it was saved.
    """

    def newest(which: str, run_name: str | None = None) -> Checkpoint | None:
        for path in newest_first(config.log_root, config.library, config.task, INDEX):
            run = Run(path, trusted=config.trust, warn=warn)
            if run_name in (None, run.config.get("run_name")) and (found := run.find(which)):
                return found
        return None

    if config.auto_resume and (found := newest("latest", config.run_name)):
        return found
    if config.checkpoint not in CHOICES:
        return Checkpoint(config.checkpoint, config.trust) if config.checkpoint else None
    if found := newest(config.checkpoint):
        return found
    raise UsageError(
        f"--checkpoint {config.checkpoint}: no run of {config.library} on {config.task} below "
        f"{config.log_root} has saved one. Name a file, or the --log-root of the run to resume."
    )


def newest_first(
    log_root: str, library: str | None = None, task: str | None = None, having: str = METRICS
) -> list[Path]:
    """Return the run folders that have a file, the one in which it was written last first."""
    label = None if task is None else task_folder(log_root, "", task).name
    files = [
        file
        for file in real(log_root).glob(f"*/*/*/{having}")
        if library in (None, file.parts[-4]) and label in (None, file.parts[-3])
    ]
    return [file.parent for file in sorted(files, key=changed_at, reverse=True)]
