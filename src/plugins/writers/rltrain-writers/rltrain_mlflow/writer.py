"""The MLflow writer."""

from __future__ import annotations

from rltrain_mlflow.options import MlflowOptions
from rltrain_mlflow.tracker import MlflowTracker
from rltrain_tracking import TrackerWriter


class MlflowWriter(TrackerWriter):
    """Sends a run to MLflow."""

    def __init__(self, options: MlflowOptions) -> None:
        super().__init__(
            "mlflow",
            MlflowTracker(options),
            checkpoints=options.checkpoints,
            finish_timeout=options.finish_timeout,
        )
