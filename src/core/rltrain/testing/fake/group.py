"""One rank's side of the fake process group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rltrain.data import pack_object, unpack_object
from rltrain.testing.fake.collectives import (
    Call,
    caller,
    copied,
    describe,
    reduced,
    reject_unfit,
)
from rltrain.types import ReduceOp, World

__all__ = ["FakeGroup", "Meet"]


class Meet(Protocol):
    """Joins a collective; returns this rank's part of the result once all ranks have joined."""

    def __call__(
        self,
        call: Call,
        combine: Callable[[list[Any]], list[Any]],
        group: str = "default",
        ranks: tuple[int, ...] | None = None,
    ) -> Any:
        """Wait for the others.

        Args:
            call: this rank's call.
            combine: turns the payloads of all members, in order, into the result of each.
            group: name of the group.
            ranks: its members; None for all.
        """
        ...


class FakeGroup:
    """A `rltrain.types.ProcessGroup` between the ranks of a `FakeWorld`.

    Arrays may be numpy's, torch's or jax's. Results are always new arrays, so code that reads its
    argument instead of the result fails its test.

    Attributes:
        world: this rank's place.
        closed: whether `close` was called.
    """

    def __init__(self, world: World, meet: Meet) -> None:
        self.world = world
        self.rank = world.rank
        self.world_size = world.world_size
        self.device = world.device
        self.closed = False
        self.meet = meet

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        """Combine an array over all ranks."""
        return self._array(f"all_reduce({op})", x, lambda xs: reduced(xs, op))

    def broadcast(self, x: Any, src: int = 0) -> Any:
        """Return rank `src`'s array on every rank."""
        return self._array(f"broadcast({self._source(src)})", x, lambda xs: copied(xs[src]))

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        """Return a copy of rank `src`'s object on every rank."""
        packed = pack_object(obj) if src == self.rank else b""
        op = f"broadcast_object({self._source(src)})"
        return unpack_object(self._meet(op, "object", packed, lambda sent: [sent[src]] * len(sent)))

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return copies of every rank's object, in the order of ranks; see `ProcessGroup`."""
        payload = "object" if dst is None else f"object to {dst}"
        sent = self._meet(
            "gather_objects", payload, pack_object(obj), lambda sent: [sent] * len(sent)
        )
        return [unpack_object(item) for item in sent] if dst in (None, self.rank) else []

    def barrier(self) -> None:
        """Wait until every rank has reached this point."""
        self._meet("barrier", "", None, lambda sent: sent)

    def close(self) -> None:
        """Leave the group."""
        self.closed = True

    def _array(self, op: str, x: Any, combine: Callable[[list[Any]], Any]) -> Any:
        """Join a collective with an array; return a copy of the combined array."""
        reject_unfit(op, x)

        # Use lists, as torch's collectives do: on the default group, one can match the other.
        def combine_lists(sent: list[Any]) -> list[Any]:
            return [[combine([theirs for (theirs,) in sent])]] * len(sent)

        (result,) = self._meet(op, describe([x]), [x], combine_lists)
        return copied(result)

    def _meet(
        self, op: str, carries: str, payload: Any, combine: Callable[[list[Any]], list[Any]]
    ) -> Any:
        if self.closed:
            raise RuntimeError(f"{op} on a process group that rank {self.rank} has closed.")
        return self.meet(Call(op, carries, payload, caller()), combine)

    def _source(self, src: int) -> str:
        if not 0 <= src < self.world_size:
            raise ValueError(f"There is no rank {src} to broadcast from: {self.world_size} ranks.")
        return f"src={src}"
