"""Faults to plant in a fake world, and the errors between its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from rltrain.errors import RltrainError

Kind = Literal["dies", "sends_nan", "returns_early", "is_late"]


@dataclass(frozen=True)
class Fault:
    """A fault of one rank, at one of its collectives.

    Example:
        `FakeWorld(4, faults=[Fault("dies", rank=1, at=3)])`
    """

    kind: Kind
    """What happens.

    - `dies`: the rank ends as if by SIGKILL, and its peers lose it.
    - `sends_nan`: the rank sends NaN.
    - `returns_early`: the rank's function ends, as if it had a `return` there.
    - `is_late`: the rank joins this collective only when no other rank can continue without it.
    """
    rank: int
    at: int
    """Number of the rank's collective, counted from 1."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            kinds = ", ".join(get_args(Kind))
            raise ValueError(f"There is no fault {self.kind!r}. Choose from {kinds}.")

    def __str__(self) -> str:
        return f"{self.kind} on rank {self.rank} at its collective number {self.at}"


def poisoned(fault: Fault, call: str, payload: Any) -> Any:
    """Return the payload with NaN everywhere."""
    if isinstance(payload, (list, tuple)):
        return [poisoned(fault, call, x) for x in payload]
    if "float" not in str(getattr(payload, "dtype", "")):
        raise ValueError(f"The fault {fault} hits {call}, which cannot carry NaN.")
    return payload * float("nan")


class Deadlock(RltrainError):
    """No rank can continue: each waits for one that waits elsewhere or has returned."""


class CollectiveMismatch(RltrainError):
    """Ranks called different collectives, or passed different shapes, dtypes or sources."""


class FaultNotReached(RltrainError):
    """A planted fault never happened, so the test would prove nothing."""


class PeerLost(RuntimeError):
    """A collective cannot complete because another rank has failed. The message is like gloo's."""


class RankDied(BaseException):
    """A planted death. Not an `Exception`, so that code does not catch it, as with SIGKILL."""
