"""MLflow's client, made for a thread that must not disturb training."""

from __future__ import annotations

import os

_SETTINGS = {
    # The client would repeat a call for minutes. The thread that makes the call does that, too.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    # Both draw from Python's global generator, which training uses.
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)

# MLflow reads its settings when it is imported.
from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, Run, RunTag  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402

__all__ = ["Metric", "MlflowClient", "MlflowException", "Param", "Run", "RunTag"]
