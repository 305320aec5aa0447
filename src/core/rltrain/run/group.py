"""The process groups of the core's own; `rltrain.types.ProcessGroup` says what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rltrain.ranks.pulse import PulseWriter
from rltrain.types import ProcessGroup, ReduceOp


class SingleProcess:
    """The group of a run with one rank: every collective returns its input."""

    def __init__(self, device: str) -> None:
        self.rank = 0
        self.world_size = 1
        self.device = device

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        return x

    def broadcast(self, x: Any, src: int = 0) -> Any:
        return x

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        return obj

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        return [obj]

    def barrier(self) -> None: ...

    def close(self) -> None: ...


class NotedGroup:
    """Notes the collectives of an `inner` group in the rank's pulse.

    What else that group has can be read through it.
    """

    rank: int
    world_size: int
    device: str

    def __init__(self, group: ProcessGroup, pulse: PulseWriter) -> None:
        self.inner, self._pulse = group, pulse

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # A copy does not have it yet.
            raise AttributeError(name)
        return getattr(self.inner, name)

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        return self._noted(f"all_reduce({op}) {list(x.shape)}", self.inner.all_reduce, x, op)

    def broadcast(self, x: Any, src: int = 0) -> Any:
        return self._noted(f"broadcast {list(x.shape)}", self.inner.broadcast, x, src)

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        return self._noted("broadcast_object", self.inner.broadcast_object, obj, src)

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        gathered: list[Any] = self._noted("gather_objects", self.inner.gather_objects, obj, dst)
        return gathered

    def barrier(self) -> None:
        self._noted("barrier", self.inner.barrier)

    def close(self) -> None:
        self.inner.close()

    def _noted(self, call: str, collective: Callable[..., Any], *arguments: Any) -> Any:
        self._pulse.enter(call)
        result = collective(*arguments)
        self._pulse.leave()
        return result
