"""The writer and its options. Light, because listing plugins imports it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rltrain.hookspecs import hookimpl
from rltrain.options import naming
from rltrain.specs import WriterSpec


@dataclass(frozen=True)
class MlflowOptions:
    """Options of the MLflow writer. Where one is not set, MLflow's variable counts."""

    tracking_uri: str | None = field(default=None, metadata=naming("host"))
    """The server, such as `http://HOST:5000`, or a database. Else MLFLOW_TRACKING_URI,
    else MLflow's default, which is in the working directory."""
    experiment: str | None = field(default=None, metadata=naming("text"))
    """The experiment, which is made if it is not there. Else MLFLOW_EXPERIMENT_NAME or
    MLFLOW_EXPERIMENT_ID, else "rltrain"."""
    run_name: str | None = field(default=None, metadata=naming("text"))
    """The run's name; else that of the run folder."""
    tags: list[str] = field(default_factory=list, metadata=naming("text"))
    """Tags, as in `mlflow.tags=[group=baseline,gpu=no]`."""
    checkpoints: str = field(default="none", metadata=naming("text"))
    """Which checkpoints become artifacts: `none`, `last`, `best` (by mean return) or `all`. The
    last and the best are uploaded when the run ends."""
    resume: bool = True
    """Whether a run that continues from a checkpoint continues in the same run of MLflow."""
    finish_timeout: float = 30.0
    """Seconds that the end of the run waits until everything is sent."""

    def __post_init__(self) -> None:
        """Check what MLflow would refuse later."""
        if re.fullmatch(r"[\w.-]+:\d+(/.*)?", self.tracking_uri or ""):
            raise ValueError(
                f"tracking_uri={self.tracking_uri} has no scheme. Did you mean "
                f"http://{self.tracking_uri}?"
            )
        for tag in self.tags:
            if not re.fullmatch(r"[\w./ -]+=.*", tag):
                raise ValueError(f"tags: {tag!r} must be NAME=VALUE.")
        from rltrain_tracking import check_options

        check_options(self.checkpoints, self.finish_timeout)


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer."""
    return [
        WriterSpec(
            name="mlflow",
            factory="rltrain_mlflow.writer:MlflowWriter",
            options="rltrain_mlflow.plugin:MlflowOptions",
            summary="MLflow; the x axis is frames over all ranks",
        )
    ]
