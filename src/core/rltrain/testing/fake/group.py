"""One rank's side of the fake process group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rltrain.testing.fake.collectives import (
    Call,
    caller,
    copied,
    describe,
    pack,
    reduced,
    reject_unfit,
    unpack,
)
from rltrain.types import ReduceOp, World

__all__ = ["FakeGroup", "Meet"]


class Meet(Protocol):
    """Brings this rank to a collective; returns its part of the result when all have come."""

    def __call__(
        self,
        call: Call,
        combine: Callable[[list[Any]], list[Any]],
        group: str = "default",
        ranks: tuple[int, ...] | None = None,
    ) -> Any:
        """Wait for the others.

        Args:
            call: what this rank calls.
            combine: turns what all members sent, in their order, into what each of them gets.
            group: name of the group that meets.
            ranks: its members; None for all.
        """
        ...


class FakeGroup:
    """A `rltrain.types.ProcessGroup` between the ranks of a `FakeWorld`.

    Arrays may be numpy's, torch's or jax's. Results are new arrays, never the ones that were given:
    code that reads its argument instead of the result is found out.

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
        packed = pack(obj) if src == self.rank else b""
        op = f"broadcast_object({self._source(src)})"
        return unpack(self._meet(op, "object", packed, lambda sent: [sent[src]] * len(sent)))

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return copies of every rank's object, in the order of ranks; see `ProcessGroup`."""
        payload = "object" if dst is None else f"object to {dst}"
        sent = self._meet("gather_objects", payload, pack(obj), lambda sent: [sent] * len(sent))
        return [unpack(item) for item in sent] if dst in (None, self.rank) else []

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self._meet("barrier", "", None, lambda sent: sent)

    def close(self) -> None:
        """Leave the group."""
        self.closed = True

    def _array(self, op: str, x: Any, combine: Callable[[list[Any]], Any]) -> Any:
        """Meet with an array, of which every rank gets a copy of the combination."""
        reject_unfit(op, x)

        # Lists, as torch's collectives send and get: on the default group the two can meet.
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
