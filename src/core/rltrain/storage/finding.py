"""What a word for a run or a checkpoint means: the same for every command, and in Python.

A run: its folder, a checkpoint in it, or "latest". A checkpoint: a file; or of a run "latest",
"best" or the iteration after which it was saved, which `Run.checkpoint` knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain.files.reading import changed_at, no_file, real
from rltrain.options.run import RunOptions
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.checkpoints import INDEX
from rltrain.storage.metrics_file import METRICS
from rltrain.storage.run import Run
from rltrain.storage.run_folder import task_folder

if TYPE_CHECKING:
    from rltrain.config import RunConfig

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
