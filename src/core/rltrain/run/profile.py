"""`profile.json` in the run folder: what each rank did in the first iterations, and when.

The file is in the Trace Event Format, which Perfetto (https://ui.perfetto.dev) and Chrome's
`about:tracing` open: a process for each rank, with a slice for each iteration, and in it one for
each step of the environments, each collective and each checkpoint. Times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.ranks.pulse import PulseWriter, Span
from rltrain.ranks.watch.hangs import machine
from rltrain.types import ProcessGroup

PROFILE = "profile.json"
"""The file's name."""

ITERATIONS = 12
"""How many are timed: the first two, in which libraries compile and load, and ten more."""


class Profile:
    """Times one rank. All ranks call the same methods at the same time."""

    def __init__(self, group: ProcessGroup, pulse: PulseWriter) -> None:
        """Begin to time. Collective.

        Clocks of several machines differ: each begins at 0 when its first rank leaves a barrier.
        """
        group.barrier()
        self._group, self._pulse = group, pulse
        self._began = pulse.begin_timing()
        self._iterations: list[int] = []

    def done(self, iteration: int) -> dict[str, Any] | None:
        """Note the end of an iteration; after the last that is timed, return what `finish` does."""
        if not self._pulse.is_timing:
            return None
        self._pulse.lap("iteration", f"iteration {iteration}")
        self._iterations.append(iteration)
        return self.finish() if len(self._iterations) == ITERATIONS else None

    def finish(self) -> dict[str, Any] | None:
        """Stop timing, if it goes on; return the file's content on rank 0. Collective then."""
        if not self._pulse.is_timing:
            return None
        mine = machine(), self._began, self._pulse.end_timing()
        ranks = self._group.gather_objects(mine, dst=0)
        return _trace(ranks) if self._group.rank == 0 and self._iterations else None


def _trace(ranks: Sequence[tuple[str, float, Sequence[Span]]]) -> dict[str, Any]:
    """Return the file's content, of each rank's machine, its clock at the start, and its times."""
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
