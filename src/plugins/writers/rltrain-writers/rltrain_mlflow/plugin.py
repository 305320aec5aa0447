"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer."""
    return [
        WriterSpec(
            name="mlflow",
            factory="rltrain_mlflow.writer:MlflowWriter",
            options="rltrain_mlflow.options:MlflowOptions",
            summary="MLflow; the x axis is frames over all ranks",
        )
    ]
