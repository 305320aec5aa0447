"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer."""
    return [
        WriterSpec(
            name="tensorboard",
            factory="rltrain_tensorboard.writer:TensorBoardWriter",
            options="rltrain_tensorboard.options:TensorBoardOptions",
            summary="TensorBoard event files; the x axis is frames over all ranks",
        )
    ]
