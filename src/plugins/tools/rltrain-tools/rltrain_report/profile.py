"""What a run's `profile.json` says: how long each thing takes in an iteration, and who waits."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.runs import Run, read_bytes
from rltrain_report.numbers import number
from rltrain_report.page import Folded, Table, Text
from rltrain_report.profiler import PROFILE

_LARGEST = 1 << 30
"""Bytes of a profile that is read."""
_WARM_UP = 2
"""Iterations at the beginning that do not count: libraries compile and load."""
_MOST = 15
"""Rows of a table."""
_REST = "the library's own work"


@dataclass
class _Cost:
    """What one thing costs a rank in all iterations that count, in microseconds."""

    calls: int = 0
    took: float = 0.0
    waited: float = 0.0
    """In collectives: until the last rank had come."""


_Costs = Mapping[str, _Cost]
_Event = Mapping[str, Any]


def profile_blocks(run: Run) -> list[Folded | Text]:
    """Return a table of a run's profile, folded; nothing if it has none."""
    try:
        events = json.loads(read_bytes(run.path / PROFILE, _LARGEST, run.path))["traceEvents"]
        iterations, ranks = _costs([event for event in events if event["ph"] == "X"])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return [Text([f"{run.path / PROFILE} cannot be read: {error!r}"], "bad")]
    note = (
        f"Means over {iterations} iterations, in ms. Waiting: the share of the time in which a "
        "rank had come to a collective, and another had not. "
        f"{PROFILE} opens at https://ui.perfetto.dev."
    )
    return [Folded(f"Profile of {run.name}", [_table(iterations, ranks), Text([note])])]


def _table(iterations: int, ranks: Sequence[_Costs]) -> Table:
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
    within = [
        [event for event in by_rank[rank] if begin <= event["ts"] < end and _is_work(event)]
        for rank in sorted(by_rank)
    ]
    return len(counted), _sums(within, end - begin)


def _is_work(event: _Event) -> bool:
    return bool(event["cat"] != "iteration")


def _sums(ranks: Sequence[Sequence[_Event]], whole: float) -> list[_Costs]:
    """Return each rank's costs."""
    collectives = [[event for event in events if event["cat"] == "collective"] for events in ranks]
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
        rest = whole - sum(cost.took for cost in costs.values())
        found.append({**costs, _REST: _Cost(took=max(rest, 0.0))})
    return found
