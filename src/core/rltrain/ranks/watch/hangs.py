"""Finds ranks that make no progress, and ends them.

Their launcher watches them. Those that no launcher of rltrain started watch each other: each one
those of its machine.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rltrain.ranks.logs.rank_log import console_stream
from rltrain.ranks.pulse import Pulse, parse_pulse, pulse_file
from rltrain.ranks.stacks import Process, last_collectives, main_thread, stack_file, stacks
from rltrain.ranks.watch.patience import Patience, shortest
from rltrain.ranks.watch.verdict import Hang, RankState, find_missing

_PERIOD = 1.0
"""Seconds between two looks."""

_ASLEEP = 30.0
"""Seconds between two looks from which on this process must have been stopped itself."""

_BUSY, _BUSY_FOR = 0.1, 0.5
"""The share of a core from which a process counts as busy, and the seconds over which it is
measured."""

_PERIODS = 0.2, 5.0
"""The shortest and the longest time between two looks, in seconds."""

_FAREWELL = 15.0
"""Seconds in which a rank must notice by itself that another one, which hung, has been ended."""


class _Held(io.FileIO):
    """A file that is open for as long as somebody holds it."""

    def __del__(self) -> None:
        self.close()


class HangWatch:
    """Looks at the ranks of one machine, again and again."""

    def __init__(
        self,
        files: Callable[[], Mapping[int, Path]],
        timeout: Mapping[str, float] | None,
        nodes: int = 1,
    ) -> None:
        """Watch ranks: `files` returns the pulses of this machine's, by rank."""
        self._files, self._has_neighbors = files, nodes > 1
        self._patience = Patience(timeout)
        self._period = min(_PERIOD, shortest(timeout) / 4)
        self._seen: dict[int, tuple[Pulse, float]] = {}
        self._looked = 0.0
        self._opened: dict[int, tuple[Path, _Held]] = {}

    def look(self) -> Hang | None:
        """Return which ranks make no progress; None if it is too early to look again, too."""
        now = time.monotonic()
        if now - self._looked < self._period:
            return None
        if now - self._looked > _ASLEEP:
            self._seen.clear()  # This process or the machine was stopped: so were the ranks.
        self._looked = now
        states = self._states(now)
        if not any(self._is_late(state, states) for state in states):
            return None
        states = self._asked(states)
        late = [state for state in states if self._is_late(state, states)]
        # One that was stopped goes on when asked, and has made no progress.
        moved = [p for p in late if not p.stopped and self._pulse(p.rank) != p.pulse]
        if not late or moved or any(state.is_debugged for state in late):
            self._seen.clear()  # Look closely again after as long.
            return None
        path = self._opened[late[0].rank][0]
        option = self._patience.option(late[0].pulse)
        return find_missing(states, late, path, self._has_neighbors, option)

    def _states(self, now: float) -> list[RankState]:
        """Return where the ranks are that have not ended."""
        states = []
        self._open()
        for rank in sorted(self._opened):
            pulse = self._pulse(rank)
            process = Process.look(pulse.pid) if pulse is not None else None
            if pulse is None or process is None:
                continue
            seen, since = self._seen.get(rank, (None, now))
            if pulse != seen:
                if seen is not None and seen.pid != pulse.pid:
                    self._patience.restart()  # The ranks have been started again.
                self._seen[rank] = pulse, (since := now)
            states.append(RankState(rank, pulse, now - since, process.stopped))
        if states:
            self._patience.note(states[0].pulse, now)
        return states

    def _open(self) -> None:
        """Hold the files with pulses open: their folder may be cleaned while the run goes on."""
        for rank, path in self._files().items():
            with contextlib.suppress(OSError):
                held = self._opened.get(rank)
                if held is None or not os.path.samestat(os.fstat(held[1].fileno()), path.stat()):
                    self._opened[rank] = path, _Held(path)

    def _pulse(self, rank: int) -> Pulse | None:
        file = self._opened[rank][1]
        file.seek(0)
        return parse_pulse(file.read())

    def _is_late(self, state: RankState, states: list[RankState]) -> bool:
        """Whether a rank that others wait for has made no progress for too long.

        If all wait, the missing rank may be on another node, whose launcher names it.
        """
        limit = self._patience.seconds(state.pulse)
        if all(other.waiting or other.ended for other in states):
            limit *= 2 if self._has_neighbors else 1
            return state.waiting and state.seconds > limit
        return not state.waiting and not state.ended and state.seconds > limit

    def _asked(self, states: list[RankState]) -> list[RankState]:
        """Return the same states with what the ranks answer."""
        started, before = time.monotonic(), [Process.look(state.pulse.pid) for state in states]
        paths = {state.rank: self._opened[state.rank][0] for state in states}
        texts = stacks({p.rank: (p.pulse.pid, stack_file(paths[p.rank])) for p in states})
        recorded = last_collectives(paths)
        time.sleep(max(0.0, started + _BUSY_FOR - time.monotonic()))
        seconds = time.monotonic() - started
        return [
            replace(
                state,
                busy=_is_busy(process, Process.look(state.pulse.pid), seconds),
                frames=main_thread(texts.get(state.rank, ""), state.pulse.thread),
                stacks=texts.get(state.rank, ""),
                collectives=recorded.get(state.rank, ""),
            )
            for state, process in zip(states, before, strict=True)
        ]


def _is_busy(before: Process | None, now: Process | None, seconds: float) -> bool:
    """Whether a process has used a core, or wants one that others use."""
    if before is None or now is None:
        return False
    return before.state == now.state == "R" or now.seconds - before.seconds > _BUSY * seconds


def machine() -> str:
    """Return what only processes on this machine share: host names may be the same elsewhere."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip() if boot.exists() else socket.gethostname()


@contextlib.contextmanager
def watching(
    rank: int, folders: Sequence[tuple[str, str]], timeout: Mapping[str, float] | None
) -> Iterator[None]:
    """Look for ranks that hang, in a thread.

    Each rank has told `machine()` and its private folder.
    """
    here = machine()
    pulses = {
        other: pulse_file(Path(folder), other)
        for other, (there, folder) in enumerate(folders)
        if there == here and pulse_file(Path(folder), other).exists()
    }
    watch = HangWatch(lambda: pulses, timeout, nodes=1 + (len(pulses) < len(folders)))
    period = min(_PERIODS[1], max(_PERIODS[0], shortest(timeout) / 10))
    over = threading.Event()

    def look() -> None:
        while not over.wait(period):
            if (hang := watch.look()) is not None:
                _end(hang, rank, pulses)

    threading.Thread(target=look, name="rltrain-hangs", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _end(hang: Hang, rank: int, pulses: Mapping[int, Path]) -> None:
    """End the missing rank; one rank does it for all of its machine."""
    lock = pulses[min(pulses)].with_name("hang.lock")
    with contextlib.suppress(OSError):
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        for stream in {console_stream(), sys.stderr}:
            print(f"rltrain: {hang.message}", file=stream, flush=True)
        hang.end(all_but=rank)
    if rank not in hang.culprits:
        time.sleep(_FAREWELL)
    for ended in {rank, *hang.culprits}:
        shutil.rmtree(pulses[ended].parent, ignore_errors=True)
    os._exit(1)
