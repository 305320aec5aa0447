"""One run of a fake world: its collectives, planted faults, and ranks that cannot complete them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from rltrain.errors import RltrainError
from rltrain.ranks.world import rank_variables
from rltrain.testing.fake.baton import Baton, RankStates
from rltrain.testing.fake.group import Call, Collective, FakeGroup, size
from rltrain.types import World

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


T = TypeVar("T")


class _Meeting:
    """One collective that some ranks have joined and wait for."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.calls: dict[int, Call] = {}
        self.results: dict[int, Any] = {}

    @property
    def missing(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self.calls]


class FakeRun:
    """One run of a fake world."""

    def __init__(
        self, worlds: Sequence[World], faults: Iterable[Fault], rank_local: Sequence[str]
    ) -> None:
        self.trace: list[Collective] = []
        self.errors: dict[int, BaseException] = {}
        self.faults = {(fault.rank, fault.at): fault for fault in faults}
        self._worlds = worlds
        self._all = tuple(range(len(worlds)))
        self._meetings: dict[str, _Meeting] = {}
        self._counts = [0] * len(worlds)
        self._ended: set[int] = set()
        self._parked: list[int] = []
        self._thrown: dict[int, BaseException] = {}
        self._first: BaseException | None = None
        self._states = RankStates([variables(world) for world in worlds], rank_local)
        self._baton = Baton(len(worlds), self._states, self._stuck)

    def run(self, function: Callable[[FakeGroup], T]) -> list[T]:
        """See `FakeWorld.run`."""
        results: list[Any] = [None] * len(self._worlds)

        def work(rank: int) -> None:
            meet = functools.partial(self._meet, rank)
            try:
                results[rank] = function(FakeGroup(self._worlds[rank], meet))
            except _ReturnsEarly:
                pass
            except BaseException as error:
                self._fail(rank, error)
            self._ended.add(rank)

        try:
            self._baton.run(work)
        finally:
            self._states.leave()
        if self._first is not None:
            raise self._first
        for fault in self.faults.values():
            made = self._counts[fault.rank]
            raise FaultNotReached(f"Fault not reached: {fault}; it made {made} collectives.")
        return results

    def _meet(
        self,
        rank: int,
        call: Call,
        combine: Callable[[list[Any]], list[Any]],
        group: str = "default",
        ranks: tuple[int, ...] | None = None,
    ) -> Any:
        """Join a collective; return this rank's part of the result once all ranks have joined.

        `combine` turns the payloads of all members, in order, into the result of each. The ranks
        are the members of the group; None for all.
        """
        if rank in self._ended:
            raise RuntimeError(f"{call} on the group of a run that has ended on rank {rank}.")
        call = self._with_fault(rank, call)
        ranks = ranks or self._all
        for other in ranks:
            if other in self.errors:
                raise self._lost(call, other)
        meeting = self._meetings.setdefault(group, _Meeting(ranks))
        self._check(group, meeting, rank, call)
        meeting.calls[rank] = call
        if meeting.missing:
            self._wait(rank)
        else:
            self._complete(meeting, rank, combine)
            del self._meetings[group]
        return meeting.results[rank]

    def _complete(
        self, meeting: _Meeting, last: int, combine: Callable[[list[Any]], list[Any]]
    ) -> None:
        calls = [meeting.calls[rank] for rank in meeting.ranks]
        results = combine([call.payload for call in calls])
        meeting.results = dict(zip(meeting.ranks, results, strict=True))
        self.trace.append(
            Collective(
                op=calls[0].op,
                carries=calls[0].carries,
                bytes=max(size(call.payload) for call in calls),
                ranks=meeting.ranks,
                callers=tuple(call.caller for call in calls),
                last=last,
            )
        )
        # The last rank continues at once: with two ranks, that halves the number of switches.
        for rank in sorted(set(meeting.ranks) - {last}):
            self._baton.make_ready(rank)

    def _wait(self, rank: int) -> None:
        self._baton.wait(rank)
        if rank in self._thrown:
            raise self._thrown.pop(rank)

    def _check(self, group: str, meeting: _Meeting, rank: int, call: Call) -> None:
        """Compare a call with the first waiting rank's; the others' calls equal that one."""
        for other, theirs in meeting.calls.items():
            if (theirs.op, theirs.carries) == (call.op, call.carries):
                return
            message = (
                "Ranks called different collectives:\n"
                f"  rank {other}: {theirs}, called at {theirs.caller}\n"
                f"  rank {rank}: {call}, called at {call.caller}"
            )
            error = CollectiveMismatch(message)
            del self._meetings[group]
            self._first = self._first or error
            self._throw({waiting: CollectiveMismatch(message) for waiting in meeting.calls})
            raise error

    def _fail(self, rank: int, error: BaseException) -> None:
        """Record a rank's error; ranks that wait for this rank get `PeerLost`."""
        if rank in self.errors:
            return
        self.errors[rank] = error
        if self._first is None:
            self._first = error
            error.add_note(f"This was rank {rank} of {len(self._worlds)} ranks of a fake world.")
        for name, meeting in list(self._meetings.items()):
            if rank in meeting.ranks:
                del self._meetings[name]
                meeting.calls.pop(rank, None)  # Its own call was what failed.
                self._throw({r: self._lost(call, rank) for r, call in meeting.calls.items()})

    def _lost(self, call: Call, rank: int) -> PeerLost:
        error = self.errors[rank]
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return PeerLost(f"Connection closed by peer: {call} lost rank {rank}, by {reason}")

    def _throw(self, errors: Mapping[int, BaseException]) -> None:
        """Wake waiting ranks, each with an error."""
        for rank, error in sorted(errors.items()):
            self._thrown[rank] = error
            self._baton.make_ready(rank)

    def _stuck(self) -> None:
        """Make a rank ready although none can continue: the waiting ranks would wait forever."""
        if self._parked:
            self._baton.make_ready(self._parked.pop(0))
            return
        message = self._deadlock()
        waiting = [rank for meeting in self._meetings.values() for rank in meeting.calls]
        self._meetings.clear()
        errors = {rank: Deadlock(message) for rank in waiting}
        self._first = self._first or errors[min(waiting)]
        self._throw(errors)

    def _deadlock(self) -> str:
        lines = {rank: "has returned." for rank in self._ended}
        for meeting in self._meetings.values():
            missing = ", ".join(map(str, meeting.missing))
            for rank, call in meeting.calls.items():
                lines[rank] = f"waits for {missing} in {call}, called at {call.caller}"
        each = [f"  rank {rank} {what}" for rank, what in sorted(lines.items())]
        return "\n".join(["Deadlock: no rank can continue.", *each])

    def _with_fault(self, rank: int, call: Call) -> Call:
        """Count a rank's collective, and trigger the fault that is planted there, if any."""
        error = self.errors.get(rank)
        if isinstance(error, RankDied):
            raise error  # The rank is dead already, and its stack is unwinding.
        self._counts[rank] += 1
        fault = self.faults.pop((rank, self._counts[rank]), None)
        if fault is None:
            return call
        if fault.kind == "sends_nan":
            return dataclasses.replace(call, payload=poisoned(fault, str(call), call.payload))
        if fault.kind == "returns_early":
            raise _ReturnsEarly
        if fault.kind == "dies":
            # A killed process runs no cleanup code. So the rank's stack unwinds only when no other
            # rank can continue.
            self._fail(rank, RankDied(f"Planted: {fault}."))
        self._parked.append(rank)
        self._wait(rank)
        if fault.kind == "dies":
            raise self.errors[rank]
        return call


class _ReturnsEarly(BaseException):
    """Unwinds the stack of a rank whose planted fault is `returns_early`."""


def variables(world: World) -> dict[str, str]:
    """Return the variables that torchrun would set."""
    return {**rank_variables(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
