"""Tells which rank is missing where another waits: jax's collectives have no timeout."""

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

__all__ = ["Lines", "Place", "Times", "Watchdog"]

_LIBRARIES = tuple(
    f"{folder}{os.sep}" for folder in (Path(__file__).parent, Path(jax.__file__).parent)
)


class Lines(Protocol):
    """Where ranks tell each other of themselves; see `rltrain_jax.coordination.Board`."""

    def write(self, rank: int, line: str) -> None:
        """Set a rank's line."""
        ...

    def read(self) -> dict[int, str]:
        """Return the lines that there are, by rank."""
        ...


@dataclass(frozen=True)
class Times:
    """Seconds."""

    period: float = 5.0
    """Between two looks."""
    patience: float = 60.0
    """Waiting in one collective until it is told; again after twice as long, and so on."""
    limit: float = 1800.0
    """Waiting in one collective until the process ends, as with the torch backends: ranks compile,
    and simulators load, for minutes."""
    farewell: float = 10.0
    """Waiting for a rank that has left until the process ends. gloo tells sooner, NCCL may not."""


@dataclass(frozen=True)
class Place:
    """Where a rank is."""

    number: int
    """Its last collective, counted from 1."""
    call: str
    """What that one is: "all_reduce(mean) of float32[7]"."""
    line: str
    """The line of the program that its main thread is at."""
    error: str = ""
    """What made it leave; "" if nothing has."""

    def __str__(self) -> str:
        if self.error:
            return f"has left, by {self.error}"
        return f"was last seen after collective {self.number} ({self.call}), at {self.line}"


class Watchdog:
    """A thread beside a rank's work, which says where the others are when it waits for long.

    Each rank keeps a line on a table that all can read. A rank whose collective is not done after
    `Times.patience` reads it, and names those that have not come.
    """

    def __init__(
        self,
        lines: Lines,
        rank: int,
        times: Times | None = None,
        say: Callable[[str], None] | None = None,
        end: Callable[[], None] = lambda: os._exit(1),
    ) -> None:
        """Start to watch the thread that calls this.

        Args:
            lines: the table.
            rank: this process'.
            times: when to look and to speak.
            say: takes what is to be told; by default it goes to the rank's log and the console.
            end: ends the process, whose work cannot be interrupted.
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
        self._spoken: tuple[int, float] = (0, 0.0)
        self._told: Place | None = None
        self._main = threading.get_ident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rltrain watchdog", daemon=True)
        self._thread.start()

    def enter(self, *call: Any) -> None:
        """Note that a collective begins; what it is, is put into words only when it is told."""
        self._number, self._call, self._since = self._number + 1, call, time.monotonic()
        self._waiting = True

    def leave(self, result: Any) -> None:
        """Note that a collective has been started; it is over when its result is ready."""
        self._result, self._waiting = result, False

    def close(self, error: BaseException | None = None) -> None:
        """Watch no longer; if an error is the reason, tell the ranks that wait for this one."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(self._times.period)
        if error is not None:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            with contextlib.suppress(Exception):  # Rank 0, which keeps the table, may be gone.
                self._write(Place(self._number, self._words(), "", reason))

    def _watch(self) -> None:
        while not self._stop.wait(self._times.period):
            try:
                self._look()
            except Exception:  # Rank 0, which keeps the table, is gone: jax says so itself.
                return

    def _look(self) -> None:
        place = Place(self._number, self._words(), _line(self._main))
        waited = time.monotonic() - self._since
        if place != self._told:
            self._write(place)
        if not self._is_waiting() or place.number != self._number:
            return
        places = {rank: Place(**json.loads(line)) for rank, line in self._lines.read().items()}
        left = any(other.error for other in places.values())
        limit = self._times.farewell if left else self._times.limit
        number, last = self._spoken
        due = 2 * last if number == place.number else self._times.patience
        if waited < min(due, limit):
            return
        self._spoken = place.number, due
        self._say(self._message(place, waited, places))
        if waited >= limit:
            self._say(f"Rank {self._rank} waits no longer: it ends.")
            self._end()

    def _message(self, place: Place, waited: float, places: dict[int, Place]) -> str:
        missing = {r: p for r, p in places.items() if p.number < place.number or p.error}
        told = [f"\n  rank {rank} {where}" for rank, where in sorted(missing.items())]
        return (
            f"Rank {self._rank} has waited {waited:.0f} s in collective {place.number} "
            f"({place.call}), at {place.line}. "
            + (f"Not there yet:{''.join(told)}" if told else "Every rank has come to it.")
        )

    def _is_waiting(self) -> bool:
        if self._waiting or self._result is None:
            return self._waiting
        try:
            return not self._result.is_ready()
        except RuntimeError:  # Its memory has been given to another array: it was ready.
            return False

    def _words(self) -> str:
        name, *array = self._call
        return f"{name} of {array[0].dtype}{list(array[0].shape)}" if array else str(name)

    def _write(self, place: Place) -> None:
        self._lines.write(self._rank, json.dumps(asdict(place)))
        self._told = place


def _line(thread: int) -> str:
    """Return the innermost line of a thread that is neither jax's nor this package's."""
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
