"""The observer `profile`: what each rank did in the first iterations, and when; and its table.

`profile.json` in the run folder is in the Trace Event Format, which Perfetto
(https://ui.perfetto.dev) and Chrome's `about:tracing` open: a process for each rank, with a slice
for each iteration, and in it one for each step of the environments and each collective. Times are
in microseconds.
"""

from __future__ import annotations

import json
import socket
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rltrain.hookspecs import hookimpl
from rltrain.launch import say, whole
from rltrain.session import Session
from rltrain.types import ProcessGroup

if TYPE_CHECKING:
    from rltrain.runs import Run
    from rltrain_report.page import Folded, Table, Text

PROFILE = "profile.json"
"""The file's name."""

ITERATIONS = 12
"""How many are timed: the first two, in which libraries compile and load, and ten more."""

_LARGEST = 1 << 30
"""Bytes of a profile that is read."""
_WARM_UP = 2
"""Iterations at the beginning that do not count: libraries compile and load."""
_MOST = 15
"""Rows of a table."""
_REST = "the library's own work"

Span = tuple[str, str, int, int]
"""What a rank did: its kind, its name, when it began, and how long it took."""


class Profiler:
    """Times one rank."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._spans: list[Span] = []

    @hookimpl(wrapper=True)
    def rltrain_init_distributed(self) -> Generator[None, ProcessGroup, ProcessGroup]:
        """Time the collectives of this rank."""
        return _TimedGroup((yield), self)

    @hookimpl(wrapper=True)
    def rltrain_make_env(self) -> Generator[None, Any, Any]:
        """Time the steps of this rank's environments."""
        env = yield
        step = env.step
        env.step = lambda actions: self.timed("phase", "stepping the environment", step, actions)
        return env

    @hookimpl(wrapper=True)
    def rltrain_train(self, session: Session) -> Generator[None, Any, Any]:
        """Time the first iterations. Collective.

        Clocks of several machines differ: each begins at 0 when its first rank leaves a barrier.
        """
        session.group.barrier()
        self._session = session
        self._origin = self._lap = time.perf_counter()
        self._done = session.iteration
        self._last = self._done + ITERATIONS
        result = yield
        self._end_iteration()
        self._finish()
        return result

    def timed(self, kind: str, name: str, call: Callable[..., Any], *given: Any) -> Any:
        """Return what a call returns, and keep how long it took."""
        if self._session is None:
            return call(*given)
        self._end_iteration()
        if kind == "phase" and self._done >= self._last:  # In a step, all ranks are as far.
            self._finish()
        began = time.perf_counter()
        result = call(*given)
        self._keep(kind, name, began)
        return result

    def _keep(self, kind: str, name: str, began: float) -> None:
        start, took = began - self._origin, time.perf_counter() - began
        self._spans.append((kind, name, round(start * 1e6), round(took * 1e6)))

    def _end_iteration(self) -> None:
        if self._session is not None and self._session.iteration > self._done:
            self._done = self._session.iteration
            if self._done <= self._last:
                self._keep("iteration", f"iteration {self._done}", self._lap)
            self._lap = time.perf_counter()

    def _finish(self) -> None:
        """Write the file on rank 0, and time no more. Collective."""
        if (session := self._session) is None:
            return
        self._session = None
        mine = socket.gethostname(), self._origin, self._spans
        ranks = session.group.gather_objects(mine, dst=0)
        if session.world.is_root:
            text = json.dumps(_trace(ranks), separators=(",", ":"))
            path = session.run_folder.path / PROFILE
            with whole(path) as partial:
                partial.write_text(text)
            say(f"profile: {path} opens at https://ui.perfetto.dev; `rltrain report` sums it up")


class _TimedGroup:
    """A process group whose collectives are timed."""

    def __init__(self, group: ProcessGroup, profiler: Profiler) -> None:
        self._group, self._timed = group, profiler.timed

    def __getattr__(self, name: str) -> Any:
        if name == "_group":  # A copy does not have it yet.
            raise AttributeError(name)
        return getattr(self._group, name)

    def _named(self, name: str, call: str, *given: Any) -> Any:
        return self._timed("collective", name, getattr(self._group, call), *given)

    def all_reduce(self, x: Any, op: Any = "sum") -> Any:
        return self._named(f"all_reduce({op}) {list(x.shape)}", "all_reduce", x, op)

    def broadcast(self, x: Any, src: int = 0) -> Any:
        return self._named(f"broadcast {list(x.shape)}", "broadcast", x, src)

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        return self._named("broadcast_object", "broadcast_object", obj, src)

    def gather_objects(self, obj: Any, dst: int | None = None) -> Any:
        return self._named("gather_objects", "gather_objects", obj, dst)

    def barrier(self) -> None:
        self._named("barrier", "barrier")


def _trace(ranks: Sequence[tuple[str, float, Sequence[Span]]]) -> dict[str, Any]:
    """Return the file's content, from each rank's host, its clock at the start, and its spans."""
    events: list[dict[str, Any]] = []
    for rank, (place, began, spans) in enumerate(ranks):
        first = min(other for there, other, _ in ranks if there == place)
        later = round((began - first) * 1e6)
        events.append(
            {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}}
        )
        for kind, name, begin, took in spans:
            event = {"ph": "X", "cat": kind, "name": name, "pid": rank, "tid": 0}
            events.append(event | {"ts": later + begin, "dur": took})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


@dataclass
class _Cost:
    """What a rank spends on one thing in all iterations that count, in microseconds."""

    calls: int = 0
    took: float = 0.0
    waited: float = 0.0
    """In collectives: until the last rank entered."""


_Costs = Mapping[str, _Cost]
_Event = Mapping[str, Any]


def profile_blocks(run: Run) -> list[Folded | Text]:
    """Return a table of a run's profile, folded; nothing if it has none."""
    from rltrain.runs import read_bytes
    from rltrain_report.page import Folded, Text

    try:
        events = json.loads(read_bytes(run.path / PROFILE, _LARGEST, run.path))["traceEvents"]
        iterations, ranks = _costs([event for event in events if event["ph"] == "X"])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return [Text([f"{run.path / PROFILE} cannot be read: {error!r}"], "bad")]
    note = (
        f"Means over {iterations} iterations, in ms. Waiting: the share of the time in which a "
        "rank had entered a collective, and another had not. "
        f"{PROFILE} opens at https://ui.perfetto.dev."
    )
    return [Folded(f"Profile of {run.name}", [_table(iterations, ranks), Text([note])])]


def _table(iterations: int, ranks: Sequence[_Costs]) -> Table:
    from rltrain_report.numbers import number
    from rltrain_report.page import Table

    names = dict.fromkeys(name for costs in ranks for name in costs)
    took = {name: [costs[name].took for costs in ranks if name in costs] for name in names}
    rows = []
    for name in sorted(names, key=lambda name: -sum(took[name]))[:_MOST]:
        each = [costs[name] if name in costs else _Cost() for costs in ranks]
        times = [cost.took / iterations / 1e3 for cost in each]
        slowest = max(range(len(ranks)), key=times.__getitem__)
        waited = sum(cost.waited for cost in each) / max(sum(took[name]), 1)
        calls = statistics.fmean(cost.calls for cost in each) / iterations
        row = [name, "" if name == _REST else number(calls), number(statistics.fmean(times))]
        rows.append([*row, f"{number(times[slowest])} (rank {slowest})", f"{waited:.0%}"])
    return Table(("what", "calls", "mean of ranks", "longest", "waiting"), rows, (1, 2, 3, 4))


def _costs(events: Sequence[_Event]) -> tuple[int, list[_Costs]]:
    """Return the number of iterations that count, and each rank's costs in them."""
    by_rank: dict[int, list[_Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["ts"]):
        by_rank[event["pid"]].append(event)
    laps = [event for event in by_rank[0] if event["cat"] == "iteration"]
    counted = laps[_WARM_UP:] or laps
    first, last = counted[0], counted[-1]
    begin, end = first["ts"], last["ts"] + last["dur"]
    ranks = [
        [each for each in of_rank if begin <= each["ts"] < end and each["cat"] != "iteration"]
        for _, of_rank in sorted(by_rank.items())
    ]
    collectives = [[each for each in own if each["cat"] == "collective"] for own in ranks]
    # Ranks call the same collectives in the same order.
    complete = [max(each["ts"] for each in same) for same in zip(*collectives, strict=False)]
    found: list[_Costs] = []
    for events, own in zip(ranks, collectives, strict=True):
        costs: dict[str, _Cost] = defaultdict(_Cost)
        for event in events:
            costs[event["name"]].calls += 1
            costs[event["name"]].took += event["dur"]
        for event, last in zip(own, complete, strict=False):
            costs[event["name"]].waited += min(last - event["ts"], event["dur"])
        rest = end - begin - sum(cost.took for cost in costs.values())
        found.append({**costs, _REST: _Cost(took=max(rest, 0.0))})
    return len(counted), found
