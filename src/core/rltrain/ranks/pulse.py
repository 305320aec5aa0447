"""What a rank is doing, as its launcher and its neighbors can read it at any time.

A rank writes its pulse to memory that it shares with them: a microsecond for each step and
collective, without a thread and without a message. It can be read while the rank hangs.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from rltrain.files.disk import whole

Phase = Literal[
    "starting",
    "stepping the environment",
    "learning",
    "saving a checkpoint",
    "ending",
    "ended",
    "playing episodes",
]
"""What a rank does. Learning is all that the library does between steps."""

_OF_ITERATIONS: tuple[Phase, ...] = ("stepping the environment", "learning", "saving a checkpoint")

_PHASES: tuple[Phase, ...] = get_args(Phase)

_FORM = struct.Struct("<qqqqqB?80s")


@dataclass(frozen=True)
class Pulse:
    """What a rank did at one moment."""

    pid: int
    thread: int
    """The identifier of its main thread."""
    iteration: int
    """The last iteration that the process has done; 0 if none, also in a run that continues."""
    beats: int
    """Grows with everything that the rank does."""
    collectives: int
    """Collectives of the process group that it has begun."""
    phase: Phase
    waiting: bool
    """Whether it is in a collective."""
    call: str
    """Its last collective, such as "all_reduce(sum) [7]"."""

    @property
    def when(self) -> str:
        """In which iteration it does so, to be added to what it does; "" if in none."""
        in_one = self.phase in _OF_ITERATIONS
        return f", in iteration {self.iteration + 1}" if in_one else ""


class PulseWriter:
    """Writes a rank's pulse.

    `stepping` are the seconds so far in its environments, `waiting` those in collectives.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _FORM.size)  # This process' own, until `share`.
        self._identity = os.getpid(), threading.main_thread().ident or 0
        self._iteration = self._beats = self._collectives = self._phase = 0
        self._waiting, self._call = False, b""
        self.stepping = self.waiting = self._entered = 0.0
        self._write()

    def share(self, path: Path) -> None:
        """Write to a file from now on; where it cannot be written, no one watches this rank."""
        with contextlib.suppress(OSError), whole(path) as partial:
            partial.write_bytes(bytes(_FORM.size))
            with partial.open("r+b") as file:
                self._memory = mmap.mmap(file.fileno(), _FORM.size)
            self._write()

    def phase(self, phase: Phase) -> None:
        """Note what the rank does from now on."""
        self._phase = _PHASES.index(phase)
        self._write()

    def done(self, iteration: int) -> None:
        """Note the end of an iteration."""
        self._iteration = iteration
        self.phase("learning")

    @contextlib.contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Note what the rank does inside the context."""
        before, began = self._phase, time.perf_counter()
        self.phase(phase)
        try:
            yield
        finally:
            if phase == "stepping the environment":
                self.stepping += time.perf_counter() - began
            self._phase = before
            self._write()

    def enter(self, call: str) -> None:
        """Note that a collective begins."""
        self._collectives += 1
        self._waiting, self._call = True, call.encode()[:80]
        self._write()
        self._entered = time.perf_counter()

    def leave(self) -> None:
        """Note that it has ended. An error leaves the rank where it was."""
        self.waiting += time.perf_counter() - self._entered
        self._waiting = False
        self._write()

    def _write(self) -> None:
        self._beats += 1
        counts = self._iteration, self._beats, self._collectives, self._phase
        _FORM.pack_into(self._memory, 0, *self._identity, *counts, self._waiting, self._call)


def pulse_file(folder: Path, rank: int) -> Path:
    """Return where a rank's pulse is."""
    return folder / f"rank_{rank}.pulse"


def read_pulse(path: Path) -> Pulse | None:
    """Return a rank's pulse, or None if it has not written one."""
    try:
        pid, thread, done, beats, begun, phase, waiting, call = _FORM.unpack(path.read_bytes())
    except (OSError, struct.error):
        return None
    text = call.rstrip(b"\0").decode(errors="replace")
    return Pulse(pid, thread, done, beats, begun, _PHASES[phase], waiting, text)


def pulse_files(folder: Path) -> dict[int, Path]:
    """Return the files with pulses in a folder, by rank."""
    found = {int(path.stem.removeprefix("rank_")): path for path in folder.glob("rank_*.pulse")}
    return dict(sorted(found.items()))


def read_pulses(folder: Path) -> dict[int, Pulse]:
    """Return the pulses in a folder by rank."""
    found = {rank: read_pulse(path) for rank, path in pulse_files(folder).items()}
    return {rank: pulse for rank, pulse in found.items() if pulse is not None}
