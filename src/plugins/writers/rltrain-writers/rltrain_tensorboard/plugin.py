"""The writer and its options. Light, because listing plugins imports it."""

from __future__ import annotations

from dataclasses import dataclass

from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec


@dataclass(frozen=True)
class TensorBoardOptions:
    """Options of the TensorBoard writer."""

    flush: int = 1
    """Iterations between two flushes of the event file. More spares a slow network disk; a run that
    is killed loses what was not flushed."""

    def __post_init__(self) -> None:
        """Check the range."""
        if self.flush < 1:
            raise ValueError(f"flush={self.flush} must be at least 1.")


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer."""
    return [
        WriterSpec(
            name="tensorboard",
            factory="rltrain_tensorboard.writer:TensorBoardWriter",
            options="rltrain_tensorboard.plugin:TensorBoardOptions",
            summary="TensorBoard event files; the x axis is frames over all ranks",
        )
    ]
