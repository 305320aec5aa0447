"""A process group that notes its collectives in the rank's pulse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rltrain.types import ProcessGroup, ReduceOp
from rltrain_ranks.pulse import PulseWriter

__all__ = ["NotedGroup"]


class NotedGroup:
    """Does what another group does. What its type has besides can be read through it.

    Attributes:
        inner: the other group.
    """

    def __init__(self, group: ProcessGroup, pulse: PulseWriter) -> None:
        self.inner, self._pulse = group, pulse

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # A copy does not have it yet.
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def rank(self) -> int:
        """Global rank of this process."""
        return self.inner.rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.inner.world_size

    @property
    def device(self) -> str:
        """Device of this rank."""
        return self.inner.device

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        """Combine an array over all ranks, element by element."""
        return self._noted(f"all_reduce({op}) {list(x.shape)}", self.inner.all_reduce, x, op)

    def broadcast(self, x: Any, src: int = 0) -> Any:
        """Return rank `src`'s array on every rank."""
        return self._noted(f"broadcast {list(x.shape)}", self.inner.broadcast, x, src)

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        """Return rank `src`'s object on every rank."""
        return self._noted("broadcast_object", self.inner.broadcast_object, obj, src)

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return every rank's object, in the order of ranks."""
        gathered: list[Any] = self._noted("gather_objects", self.inner.gather_objects, obj, dst)
        return gathered

    def barrier(self) -> None:
        """Wait until every rank has reached this point."""
        self._noted("barrier", self.inner.barrier)

    def close(self) -> None:
        """Leave the group."""
        self.inner.close()

    def _noted(self, call: str, collective: Callable[..., Any], *arguments: Any) -> Any:
        self._pulse.enter(call)
        result = collective(*arguments)
        self._pulse.leave()
        return result
