"""The process group of a run with a single process."""

from __future__ import annotations

from typing import Any

from rltrain.types import ReduceOp

__all__ = ["SingleProcess"]


class SingleProcess:
    """A `ProcessGroup` of one rank: every collective returns its input."""

    def __init__(self, device: str) -> None:
        self.rank = 0
        self.world_size = 1
        self.device = device

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        """Return the array."""
        return x

    def broadcast(self, x: Any, src: int = 0) -> Any:
        """Return the array."""
        return x

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        """Return the object."""
        return obj

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return a list of the one object."""
        return [obj]

    def barrier(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
