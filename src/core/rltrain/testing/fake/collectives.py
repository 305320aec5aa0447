"""The arithmetic of collectives over arrays of any framework, and what tells two apart."""

from __future__ import annotations

import functools
import math
import operator
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.types import ReduceOp

__all__ = [
    "Call",
    "Collective",
    "caller",
    "copied",
    "describe",
    "pack",
    "reduced",
    "reject_unfit",
    "size",
    "unpack",
]

_HERE = f"{Path(__file__).parent}{os.sep}"


@dataclass(frozen=True)
class Collective:
    """One completed collective, as the trace keeps it."""

    op: str
    """The operation with what qualifies it: "all_reduce(sum)", "broadcast(src=0)", "barrier"."""
    carries: str
    """What is sent: "float32[3, 2]", "object", or "" for a barrier."""
    bytes: int
    """The most that one rank sent."""
    ranks: tuple[int, ...]
    """The ranks that took part."""
    callers: tuple[str, ...]
    """For each of them the line that called, as "file:line in function"."""
    last: int
    """The rank that came last, for which the others waited."""


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
    """Return the innermost line that is neither this package's nor torch's."""
    torch = sys.modules.get("torch")
    inside: tuple[str, ...] = (_HERE,)
    if torch is not None:
        inside += (f"{Path(str(torch.__file__)).parent}{os.sep}",)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"


def describe(arrays: Sequence[Any]) -> str:
    """Return dtypes and shapes: "float32[3, 2]"; of several arrays joined by " and "."""
    names = []
    for x in arrays:
        dtype = str(x.dtype).removeprefix("torch.")
        names.append(f"{dtype}[{', '.join(map(str, x.shape))}]")
    return " and ".join(names)


def size(payload: Any) -> int:
    """Return the bytes of a payload: of an array, of pickled bytes, or of a list of either."""
    if isinstance(payload, bytes):
        return len(payload)
    if isinstance(payload, (list, tuple)):
        return sum(map(size, payload))
    return math.prod(payload.shape) * payload.dtype.itemsize if payload is not None else 0


def copied(x: Any) -> Any:
    """Return a copy that shares nothing with an array, nor its history of gradients."""
    x = x.detach() if hasattr(x, "detach") else x
    return x.clone() if hasattr(x, "clone") else x.copy()


def reduced(arrays: Sequence[Any], op: ReduceOp) -> Any:
    """Combine arrays element by element, in the order of ranks.

    Only operators and methods that numpy, torch and jax arrays share are used.
    """
    shape = arrays[0].shape
    # With one dimension more, since numpy makes a scalar of the sum of two 0-dimensional arrays.
    rows = [x.detach()[None] if hasattr(x, "detach") else x[None] for x in arrays]
    if op in ("sum", "mean"):
        total = functools.reduce(operator.add, rows)
        combined = total / len(rows) if op == "mean" else total
    elif op == "min":
        combined = functools.reduce(lambda a, b: a.clip(max=b), rows)
    elif op == "max":
        combined = functools.reduce(lambda a, b: a.clip(min=b), rows)
    else:
        raise ValueError(f"all_reduce knows no operation {op!r}: sum, mean, min or max.")
    return combined.reshape(shape)


def reject_unfit(op: str, x: Any) -> None:
    """Refuse what is no array, and an array inside a function that jax compiles.

    Raises:
        TypeError: it is one, or no array at all.
    """
    if not hasattr(x, "dtype"):
        raise TypeError(f"{op} takes an array, not {x!r}: numpy.array([x]) makes one of a number.")
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.core.Tracer):
        raise TypeError(
            f"{op} was called inside a function that jax traces (jit, grad, vmap). The fake "
            "group's collectives are the host's: call them between compiled functions."
        )


def pack(obj: Any) -> bytes:
    """Pickle an object: ranks share nothing, as if they were processes."""
    return pickle.dumps(obj)


unpack: Callable[[bytes], Any] = pickle.loads
