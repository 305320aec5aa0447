"""One rank's side of the fake process group: its collectives, over arrays of any framework."""

from __future__ import annotations

import functools
import math
import operator
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.data import pack_object, unpack_object
from rltrain.run import group as noting
from rltrain.types import ReduceOp, World

_HERE = f"{Path(__file__).parent}{os.sep}"


@dataclass(frozen=True)
class Collective:
    """One completed collective, as recorded in the trace."""

    op: str
    """The operation and its parameters: "all_reduce(sum)", "broadcast(src=0)", "barrier"."""
    carries: str
    """What is sent: "float32[3, 2]", "object", or "" for a barrier."""
    bytes: int
    """The largest number of bytes that one rank sent."""
    ranks: tuple[int, ...]
    """The ranks that took part."""
    callers: tuple[str, ...]
    """The line of each rank's call, as "file:line in function"."""
    last: int
    """The rank that arrived last, for which the others waited."""


@dataclass(frozen=True)
class Call:
    """One rank's call of a collective."""

    op: str
    carries: str
    payload: Any
    caller: str

    def __str__(self) -> str:
        return f"{self.op} of {self.carries}" if self.carries else self.op


def caller() -> str:
    """Return the innermost line of the stack that is neither ours nor torch's."""
    torch = sys.modules.get("torch")
    inside: tuple[str, ...] = (_HERE, noting.__file__)
    if torch is not None:
        inside += (f"{Path(str(torch.__file__)).parent}{os.sep}",)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"


def describe(arrays: Sequence[Any]) -> str:
    """Return dtypes and shapes, such as "float32[3, 2]"; several are joined by " and "."""
    names = []
    for x in arrays:
        dtype = str(x.dtype).removeprefix("torch.")
        names.append(f"{dtype}[{', '.join(map(str, x.shape))}]")
    return " and ".join(names)


def size(payload: Any) -> int:
    """Return the bytes of a payload: an array, pickled bytes, or a list of these."""
    if isinstance(payload, bytes):
        return len(payload)
    if isinstance(payload, (list, tuple)):
        return sum(map(size, payload))
    return math.prod(payload.shape) * payload.dtype.itemsize if payload is not None else 0


def copied(x: Any) -> Any:
    """Return a copy of an array that shares neither memory nor gradient history with it."""
    x = x.detach() if hasattr(x, "detach") else x
    return x.clone() if hasattr(x, "clone") else x.copy()


def reduced(arrays: Sequence[Any], op: ReduceOp) -> Any:
    """Combine arrays element by element, in the order of ranks.

    Only operators and methods that numpy, torch and jax arrays share are used.
    """
    shape = arrays[0].shape
    # Add a dimension: in numpy, the sum of two 0-dimensional arrays is a scalar, not an array.
    rows = [x.detach()[None] if hasattr(x, "detach") else x[None] for x in arrays]
    if op in ("sum", "mean"):
        total = functools.reduce(operator.add, rows)
        combined = total / len(rows) if op == "mean" else total
    elif op == "min":
        combined = functools.reduce(lambda a, b: a.clip(max=b), rows)
    elif op == "max":
        combined = functools.reduce(lambda a, b: a.clip(min=b), rows)
    else:
        raise ValueError(f"all_reduce has no operation {op!r}. Use sum, mean, min or max.")
    return combined.reshape(shape)


def reject_unfit(op: str, x: Any) -> None:
    """Refuse values that are not arrays, and arrays inside a function that jax compiles."""
    if not hasattr(x, "dtype"):
        raise TypeError(f"{op} takes an array, not {x!r}. For a number: numpy.array([x]).")
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.core.Tracer):
        raise TypeError(
            f"{op} was called inside a function that jax traces (jit, grad, vmap). The fake "
            "group's collectives run on the host: call them between compiled functions."
        )


class FakeGroup:
    """A `rltrain.types.ProcessGroup` between the ranks of a `FakeWorld`.

    Arrays may be numpy's, torch's or jax's. Results are always new arrays, so code that reads its
    argument instead of the result fails its test.

    Attributes:
        world: this rank's place.
        closed: whether `close` was called.
        meet: joins a collective; see `rltrain.testing.fake.run.FakeRun`.
    """

    def __init__(self, world: World, meet: Callable[..., Any]) -> None:
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
