"""Faults that can be planted in a fake world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["Fault", "poisoned"]


Kind = Literal["dies", "sends_nan", "returns_early", "is_late"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong on one rank, at one of its collectives.

    Example:
        `FakeWorld(4, faults=[Fault("dies", rank=1, at=3)])`
    """

    kind: Kind
    """What happens.

    - `dies`: the rank ends as by SIGKILL, and its peers lose it.
    - `sends_nan`: what it sends is NaN.
    - `returns_early`: it leaves the function it runs, as by a `return` there.
    - `is_late`: it comes to this collective when no other rank can go on without it.
    """
    rank: int
    at: int
    """Which of the rank's collectives, counted from 1."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"No fault is called {self.kind!r}: {', '.join(get_args(Kind))}.")

    def __str__(self) -> str:
        return f"{self.kind} on rank {self.rank} at its collective number {self.at}"


def poisoned(fault: Fault, call: str, payload: Any) -> Any:
    """Return the payload with NaN everywhere.

    Raises:
        ValueError: it holds no floating-point numbers.
    """
    if isinstance(payload, (list, tuple)):
        return [poisoned(fault, call, x) for x in payload]
    if "float" not in str(getattr(payload, "dtype", "")):
        raise ValueError(f"The fault {fault} meets {call}, which can carry no NaN.")
    return payload * float("nan")
