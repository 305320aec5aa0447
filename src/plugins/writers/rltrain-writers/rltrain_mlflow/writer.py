"""One run in MLflow, by its client: the fluent functions would be the whole process' run."""

from __future__ import annotations

import contextlib
import getpass
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rltrain.options import leaves
from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted
from rltrain_mlflow.plugin import MlflowOptions
from rltrain_tracking import (
    Refused,
    Row,
    TrackerWriter,
    checkpoint_files,
    config_of,
    outcome,
    remember,
    remembered,
)

_SETTINGS = {
    # The client would repeat a call for minutes. The thread that makes the call does that, too.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    # Both take numbers from Python's global generator, which training uses.
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)

# MLflow reads its settings when it is imported.
from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, Run, RunTag  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402

METRICS_A_CALL, PARAMS_A_CALL = 1000, 100
"""What servers take at most."""
KEY_LENGTH, VALUE_LENGTH = 250, 5000
"""Characters that servers take at most."""

STATUS = {"finished": "FINISHED", "solved": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

T = TypeVar("T")


class MlflowWriter(TrackerWriter):
    """Sends a run to MLflow."""

    def __init__(self, options: MlflowOptions) -> None:
        super().__init__(
            "mlflow",
            MlflowTracker(options),
            checkpoints=options.checkpoints,
            finish_timeout=options.finish_timeout,
        )


class MlflowTracker:
    """Implements `rltrain_tracking.Tracker`."""

    def __init__(self, options: MlflowOptions) -> None:
        self._options = options
        self._client: Any = None
        self._run_id = ""

    def connect(self, started: RunStarted) -> None:
        """Begin a run, or continue the one that the run folder remembers."""
        self._client = MlflowClient(self._options.tracking_uri)
        before = remembered(started, "mlflow", self._options.resume)
        run = self._found(before.get("run_id") or os.environ.get("MLFLOW_RUN_ID"))
        if run is None:
            run = self._made(Path(started.run_dir).name)
        self._run_id = run.info.run_id
        remember(started, "mlflow", {"run_id": self._run_id})
        self._client.update_run(self._run_id, status="RUNNING")
        # Values of parameters cannot be changed: those of the first start stay.
        params = [
            Param(name, str(value)[:VALUE_LENGTH])
            for name, value in {_key(n): x for n, x in leaves(config_of(started))}.items()
            if name not in run.data.params
        ]
        for some in _parts(params, PARAMS_A_CALL):
            self._client.log_batch(self._run_id, params=some, synchronous=True)
        tags = {
            **dict(tag.split("=", 1) for tag in self._options.tags),
            "rltrain.run_dir": started.run_dir,
        }
        if started.resumed:
            tags["rltrain.resumed"] = started.resumed[:VALUE_LENGTH]
        tagged = [RunTag(name, value) for name, value in tags.items()]
        self._client.log_batch(self._run_id, tags=tagged, synchronous=True)

    def log(self, rows: Sequence[Row]) -> None:
        """Log metrics. A call that is repeated changes nothing: values have their own time."""
        metrics = [
            Metric(_key(name), value, int(row.time * 1000), row.frames)
            for row in rows
            for name, value in row.metrics.items()
        ]
        for some in _parts(metrics, METRICS_A_CALL):
            try:
                self._client.log_batch(self._run_id, metrics=some, synchronous=True)
            except MlflowException as error:
                if error.error_code in ("BAD_REQUEST", "INVALID_PARAMETER_VALUE"):
                    raise Refused(str(error)) from error
                raise

    def log_media(self, media: Media, frames: int) -> None:
        """Log a file, among the run's artifacts."""
        self._client.log_artifact(self._run_id, media.path, "media")

    def log_checkpoint(self, saved: CheckpointSaved, frames: int) -> None:
        """Log a checkpoint: the run's artifacts become a run folder."""
        for name, path in checkpoint_files(Path(saved.path)).items():
            self._client.log_artifact(self._run_id, str(path), posixpath.dirname(name) or None)

    def finish(self, ended: RunEnded) -> None:
        """Say how the run has ended."""
        self._client.set_tag(self._run_id, "rltrain.outcome", outcome(ended), synchronous=True)
        self._client.set_terminated(self._run_id, STATUS[outcome(ended)])

    def _found(self, run_id: str | None) -> Run | None:
        """Return a run that continues, unless it has been deleted, or is on another server."""
        if run_id is None:
            return None
        try:
            run: Run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return run if run.info.lifecycle_stage == "active" else None

    def _made(self, name: str) -> Run:
        tags = {"mlflow.source.name": "rltrain"}
        with contextlib.suppress(OSError, KeyError):  # A container may not know its user's name.
            tags["mlflow.user"] = getpass.getuser()
        run: Run = self._client.create_run(
            self._experiment_id(), tags=tags, run_name=self._options.run_name or name
        )
        return run

    def _experiment_id(self) -> str:
        name = self._options.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if name is None and (number := os.environ.get("MLFLOW_EXPERIMENT_ID")):
            return number
        name = name or "rltrain"
        if (found := self._client.get_experiment_by_name(name)) is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(name))


def _key(name: str) -> str:
    """Return a name that MLflow takes: `loss/grad (max)` becomes `loss/grad max`."""
    words = re.sub(r"[^\w./ -]+", "", name)
    return posixpath.normpath(words).lstrip("./ ")[:KEY_LENGTH] or "_"


def _parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
