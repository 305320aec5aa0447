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
from rltrain.ranks.watch.verdict import Hang, Place, find_missing

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
        places = self._places(now)
        if not any(self._is_late(place, places) for place in places):
            return None
        places = self._asked(places)
        late = [place for place in places if self._is_late(place, places)]
        # One that was stopped goes on when asked, and has made no progress.
        moved = [p for p in late if not p.stopped and self._pulse(p.rank) != p.pulse]
        if not late or moved or any(place.is_debugged for place in late):
            self._seen.clear()  # Look closely again after as long.
            return None
        path = self._opened[late[0].rank][0]
        option = self._patience.option(late[0].pulse)
        return find_missing(places, late, path, self._has_neighbors, option)

    def _places(self, now: float) -> list[Place]:
        """Return where the ranks are that have not ended."""
        places = []
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
            places.append(Place(rank, pulse, now - since, process.stopped))
        if places:
            self._patience.note(places[0].pulse, now)
        return places

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

    def _is_late(self, place: Place, places: list[Place]) -> bool:
        """Whether a rank that others wait for has made no progress for too long.

        If all wait, the missing rank may be on another node, whose launcher names it.
        """
        limit = self._patience.seconds(place.pulse)
        if all(other.waiting or other.ended for other in places):
            limit *= 2 if self._has_neighbors else 1
            return place.waiting and place.seconds > limit
        return not place.waiting and not place.ended and place.seconds > limit

    def _asked(self, places: list[Place]) -> list[Place]:
        """Return the same places with what the ranks answer."""
        started, before = time.monotonic(), [Process.look(place.pulse.pid) for place in places]
        paths = {place.rank: self._opened[place.rank][0] for place in places}
        texts = stacks({p.rank: (p.pulse.pid, stack_file(paths[p.rank])) for p in places})
        recorded = last_collectives(paths)
        time.sleep(max(0.0, started + _BUSY_FOR - time.monotonic()))
        seconds = time.monotonic() - started
        return [
            replace(
                place,
                busy=_is_busy(process, Process.look(place.pulse.pid), seconds),
                frames=main_thread(texts.get(place.rank, ""), place.pulse.thread),
                stacks=texts.get(place.rank, ""),
                collectives=recorded.get(place.rank, ""),
            )
            for place, process in zip(places, before, strict=True)
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
    places = {
        other: pulse_file(Path(folder), other)
        for other, (there, folder) in enumerate(folders)
        if there == here and pulse_file(Path(folder), other).exists()
    }
    watch = HangWatch(lambda: places, timeout, nodes=1 + (len(places) < len(folders)))
    period = min(_PERIODS[1], max(_PERIODS[0], shortest(timeout) / 10))
    over = threading.Event()

    def look() -> None:
        while not over.wait(period):
            if (hang := watch.look()) is not None:
                _end(hang, rank, places)

    threading.Thread(target=look, name="rltrain-hangs", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _end(hang: Hang, rank: int, places: Mapping[int, Path]) -> None:
    """End the missing rank; one rank does it for all of its machine."""
    lock = places[min(places)].with_name("hang.lock")
    with contextlib.suppress(OSError):
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        for stream in {console_stream(), sys.stderr}:
            print(f"rltrain: {hang.message}", file=stream, flush=True)
        hang.end(all_but=rank)
    if rank not in hang.culprits:
        time.sleep(_FAREWELL)
    for ended in {rank, *hang.culprits}:
        shutil.rmtree(places[ended].parent, ignore_errors=True)
    os._exit(1)
