"""One run in Weights & Biases. What is said to wandb's client reaches its service process."""

from __future__ import annotations

import mimetypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wandb

from rltrain.options import hide_words
from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted
from rltrain_tracking import (
    Row,
    TrackerWriter,
    checkpoint_files,
    config_of,
    outcome,
    remember,
    remembered,
)
from rltrain_wandb.plugin import WandbOptions

FRAMES = "frames"
"""The metric that is the x axis of all others."""

MARGIN = 5.0
"""Seconds in which wandb's own client ends, once it has given up its uploads."""

INIT_TIMEOUT = 15.0
"""Seconds for wandb to begin a run on its server, unless WANDB_INIT_TIMEOUT says otherwise."""


class WandbWriter(TrackerWriter):
    """Sends a run to Weights & Biases."""

    def __init__(self, options: WandbOptions) -> None:
        super().__init__(
            "wandb",
            WandbTracker(options),
            checkpoints=options.checkpoints,
            finish_timeout=options.finish_timeout + MARGIN,
        )


class WandbTracker:
    """Implements `rltrain_tracking.Tracker`.

    wandb's service process writes everything to the disk first, so nothing is lost while the server
    is away. A server that does not even begin the run makes it an offline one.
    """

    def __init__(self, options: WandbOptions) -> None:
        self._options = options
        self._run: Any = None

    def connect(self, started: RunStarted) -> str | None:
        """Begin a run, or continue the one that the run folder remembers."""
        before = remembered(started, "wandb", self._options.resume)
        given = self._given(started, before)
        warning = None
        try:
            self._run = wandb.init(**given, mode=self._options.mode)  # type: ignore[arg-type]
        except Exception as error:
            self._run = wandb.init(**given, mode="offline")
            reason = str(error).strip().splitlines()[0].rstrip(".")
            warning = f"{reason}. The run is recorded offline: {self._how_to_sync()}"
        self._run.define_metric(FRAMES)
        self._run.define_metric("*", step_metric=FRAMES)
        names = ("id", "project", "entity")
        remember(started, "wandb", {name: getattr(self._run, name) for name in names})
        return warning

    def log(self, rows: Sequence[Row]) -> None:
        """Log metrics."""
        for row in rows:
            self._run.log({**row.metrics, FRAMES: row.frames, "_timestamp": row.time})

    def log_media(self, media: Media, frames: int) -> None:
        """Log a file under its kind, "video" say, so that wandb shows those of a run in a row."""
        kind = (mimetypes.guess_type(media.path)[0] or "").partition("/")[0]
        makes = {"image": wandb.Image, "audio": wandb.Audio}.get(kind, wandb.Video)
        shown = makes(media.path, caption=media.name)
        self._run.log({kind or "video": shown, FRAMES: frames})

    def log_checkpoint(self, saved: CheckpointSaved, frames: int) -> None:
        """Log an artifact, which is a run folder with this checkpoint."""
        numbers = {"iteration": saved.iteration, FRAMES: frames}
        artifact = wandb.Artifact(f"checkpoint-{self._run.id}", "model", metadata=numbers)
        for name, path in checkpoint_files(Path(saved.path)).items():
            artifact.add_file(str(path), name, skip_cache=True)
        self._run.log_artifact(artifact, aliases=["latest", f"iteration-{saved.iteration}"])

    def finish(self, ended: RunEnded) -> str | None:
        """Say how the run has ended, and wait for uploads."""
        self._run.summary["outcome"] = outcome(ended)
        try:
            self._run.finish(exit_code=int(outcome(ended) == "failed"))
        except TimeoutError:
            seconds = f"{self._options.finish_timeout:g} s"
            return f"not all was uploaded within {seconds}: {self._how_to_sync()}"
        return None

    def _given(self, started: RunStarted, before: Any) -> dict[str, Any]:
        """Return the arguments of `wandb.init` without the mode."""
        options, run_dir = self._options, Path(started.run_dir)
        return {
            # What is None here is read from wandb's own variables.
            "project": _first(options.project, "WANDB_PROJECT", before.get("project", "rltrain")),
            "entity": _first(options.entity, "WANDB_ENTITY", before.get("entity") or None),
            "id": before.get("id"),
            "resume": "allow" if before else None,
            "group": options.group,
            "tags": options.tags or None,
            "name": _first(options.name, "WANDB_NAME", run_dir.name if not before else None),
            "dir": _first(None, "WANDB_DIR", str(run_dir)),
            "config": config_of(started),
            "allow_val_change": True,
            "reinit": "create_new",  # The caller of `rltrain.train` may have a run of its own.
            "settings": _settings(options),
        }

    def _how_to_sync(self) -> str:
        return f"`wandb sync {os.path.relpath(self._run.settings.sync_dir)}` uploads it"


def _first(option: str | None, variable: str, default: str | None) -> str | None:
    """Return an option; None, for wandb to read it, if only the variable is set; the default."""
    return option if option or os.environ.get(variable) else default


def _settings(options: WandbOptions) -> wandb.Settings:
    given = {} if "WANDB_INIT_TIMEOUT" in os.environ else {"init_timeout": INIT_TIMEOUT}
    return wandb.Settings(
        console="off",  # The rank's output goes to its log.
        silent=True,  # It must not ask for a login.
        finish_timeout=options.finish_timeout,
        finish_timeout_raises=True,
        # With what it records of the machine, it would record the command line, secrets included.
        x_disable_meta=hide_words(sys.argv) != list(sys.argv),
        **given,
    )
