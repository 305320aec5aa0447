"""The writer's options. It imports nothing, because it is read when a run is planned."""

from __future__ import annotations

from dataclasses import dataclass


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
