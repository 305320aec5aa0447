"""Reports which rank is missing from a collective: those of jax have no timeout."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import jax

from rltrain.launch import console_stream

_LIBRARIES = tuple(
    f"{folder}{os.sep}" for folder in (Path(__file__).parent, Path(jax.__file__).parent)
)


class Lines(Protocol):
    """A table with one line per rank; see `rltrain_jax.coordination.Board`."""

    def write(self, rank: int, line: str) -> None:
        """Set a rank's line."""
        ...

    def read(self) -> dict[int, str]:
        """Return all lines, by rank."""
        ...


@dataclass(frozen=True)
class Times:
    """Timeouts, in seconds."""

    period: float = 5.0
    """Between two checks."""
    patience: float = 60.0
    """Wait in one collective before a report; the next one comes after twice as long, and so on."""
    limit: float = 1800.0
    """Wait in one collective before the process ends, as with the torch backends: ranks compile,
    and simulators load, for minutes."""
    farewell: float = 10.0
    """Wait for a rank that has left before the process ends. gloo fails sooner, NCCL may not."""


@dataclass(frozen=True)
class RankState:
    """Where a rank is."""

    number: int
    """Its last collective, counted from 1."""
    call: str
    """That collective: "all_reduce(mean) of float32[7]"."""
    line: str
    """The line of code that its main thread executes."""
    error: str = ""
    """The error with which it left; "" if it has not."""

    def __str__(self) -> str:
        if self.error:
            return f"has left with {self.error}"
        return f"was last seen after collective {self.number} ({self.call}), at {self.line}"


class Watchdog:
    """A thread that reports where the other ranks are when this one waits for long.

    Each rank writes its state to a table. A rank whose collective is not done after
    `Times.patience` reads the table and names the ranks that have not reached it.
    """

    def __init__(
        self,
        lines: Lines,
        rank: int,
        times: Times | None = None,
        say: Callable[[str], None] | None = None,
        end: Callable[[], None] = lambda: os._exit(1),
    ) -> None:
        """Start watching the thread that calls this.

        Args:
            lines: the table.
            rank: of this process.
            times: when to check and to report.
            say: takes a report; by default it goes to the rank's log and the console.
            end: ends the process; a hanging collective cannot be interrupted.
        """
        self._lines = lines
        self._rank = rank
        self._times = times or Times()
        self._say = say or _say
        self._end = end
        self._number, self._since = 0, 0.0
        self._call: tuple[Any, ...] = ("none",)
        self._result: Any = None
        self._waiting = False
        self._reported: tuple[int, float] = (0, 0.0)
        self._written: RankState | None = None
        self._main = threading.get_ident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rltrain watchdog", daemon=True)
        self._thread.start()

    def enter(self, *call: Any) -> None:
        """Note that a collective starts; its description is formatted only for a report."""
        self._number, self._call, self._since = self._number + 1, call, time.monotonic()
        self._waiting = True

    def leave(self, result: Any) -> None:
        """Note that a collective is running; it is done when its result is ready."""
        self._result, self._waiting = result, False

    def close(self, error: BaseException | None = None) -> None:
        """Stop watching; after an error, notify the ranks that wait for this one."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(self._times.period)
        if error is not None:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            with contextlib.suppress(Exception):  # Rank 0, which holds the table, may be gone.
                self._write(RankState(self._number, self._description(), "", reason))

    def _watch(self) -> None:
        while not self._stop.wait(self._times.period):
            try:
                self._look()
            except Exception:  # Rank 0, which holds the table, is gone: jax reports that itself.
                return

    def _look(self) -> None:
        state = RankState(self._number, self._description(), _line(self._main))
        waited = time.monotonic() - self._since
        if state != self._written:
            self._write(state)
        if not self._is_waiting() or state.number != self._number:
            return
        states = {rank: RankState(**json.loads(line)) for rank, line in self._lines.read().items()}
        left = any(other.error for other in states.values())
        limit = self._times.farewell if left else self._times.limit
        number, last = self._reported
        due = 2 * last if number == state.number else self._times.patience
        if waited < min(due, limit):
            return
        self._reported = state.number, due
        self._say(self._message(state, waited, states))
        if waited >= limit:
            self._say(f"Rank {self._rank} stops waiting and exits.")
            self._end()

    def _message(self, state: RankState, waited: float, states: dict[int, RankState]) -> str:
        missing = {r: p for r, p in states.items() if p.number < state.number or p.error}
        lines = [f"\n  rank {rank} {where}" for rank, where in sorted(missing.items())]
        return (
            f"Rank {self._rank} has waited {waited:.0f} s in collective {state.number} "
            f"({state.call}), at {state.line}. "
            + (f"Not there yet:{''.join(lines)}" if lines else "Every rank has reached it.")
        )

    def _is_waiting(self) -> bool:
        if self._waiting or self._result is None:
            return self._waiting
        try:
            return not self._result.is_ready()
        except RuntimeError:  # Its buffer was donated to another array: it was ready.
            return False

    def _description(self) -> str:
        name, *array = self._call
        return f"{name} of {array[0].dtype}{list(array[0].shape)}" if array else str(name)

    def _write(self, state: RankState) -> None:
        self._lines.write(self._rank, json.dumps(asdict(state)))
        self._written = state


def _line(thread: int) -> str:
    """Return the innermost line of a thread outside of jax and this package."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    if frame is None:
        return "no line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _say(message: str) -> None:
    """Write to the rank's log, and to the console if that is another place."""
    print(message, file=sys.stderr, flush=True)
    console = console_stream()
    if console is not sys.stdout:
        print(message, file=console, flush=True)
