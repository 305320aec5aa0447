"""The arithmetic of collectives over arrays of any framework, and descriptions of their calls."""

from __future__ import annotations

import functools
import math
import operator
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.types import ReduceOp
from rltrain.watch import noted

__all__ = [
    "Call",
    "Collective",
    "caller",
    "copied",
    "describe",
    "reduced",
    "reject_unfit",
    "size",
]

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
    inside: tuple[str, ...] = (_HERE, noted.__file__)
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
    """Refuse values that are not arrays, and arrays inside a function that jax compiles.

    Raises:
        TypeError: the value is one of these.
    """
    if not hasattr(x, "dtype"):
        raise TypeError(f"{op} takes an array, not {x!r}. For a number: numpy.array([x]).")
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.core.Tracer):
        raise TypeError(
            f"{op} was called inside a function that jax traces (jit, grad, vmap). The fake "
            "group's collectives run on the host: call them between compiled functions."
        )
