"""What this distribution provides; light, because it is imported whenever plugins are listed."""

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
            summary="TensorBoard event files, every scalar against global frames",
        )
    ]
