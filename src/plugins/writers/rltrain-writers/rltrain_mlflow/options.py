"""The writer's options. It imports nothing heavy, because it is read when a run is planned."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from rltrain.options import naming
from rltrain_tracking import check_options

_DATABASES = ("mssql", "mysql", "postgresql", "sqlite")
_SCHEMES = ("databricks", "file", "http", "https", *_DATABASES)


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
    """Whether a run that goes on from a checkpoint goes on in the same run of MLflow."""
    finish_timeout: float = 30.0
    """Seconds that the end of the run waits until everything is sent."""

    def __post_init__(self) -> None:
        """Check what MLflow would refuse later."""
        if self.tracking_uri is not None:
            _check_uri(self.tracking_uri)
        for tag in self.tags:
            if not re.fullmatch(r"[\w./ -]+=.*", tag):
                raise ValueError(f"tags: {tag!r} must be NAME=VALUE.")
        check_options(self.checkpoints, self.finish_timeout)

    @property
    def tag_values(self) -> dict[str, str]:
        """The tags by name."""
        return {name: value for name, _, value in (tag.partition("=") for tag in self.tags)}


def _check_uri(uri: str) -> None:
    """Check that MLflow knows the scheme; plugins of MLflow add some."""
    scheme, separator, _ = uri.partition(":")
    scheme = scheme.partition("+")[0].lower() if separator else "file"
    added = {point.name for point in entry_points(group="mlflow.tracking_store")}
    if scheme not in (*_SCHEMES, *added):
        hint = f" Did you mean http://{uri}?" if re.fullmatch(r"[\w.-]+:\d+(/.*)?", uri) else ""
        raise ValueError(
            f"tracking_uri={uri}: MLflow has no scheme {scheme!r}.{hint} It has "
            f"{', '.join(sorted({*_SCHEMES, *added}))}."
        )
    if scheme in _DATABASES and importlib.util.find_spec("sqlalchemy") is None:
        raise ValueError(f"tracking_uri={uri}: a database needs all of MLflow: pip install mlflow")
