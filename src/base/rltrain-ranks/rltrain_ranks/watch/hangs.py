"""Finds ranks that make no progress, and ends them."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rltrain_ranks.board import board_of
from rltrain_ranks.pulse import Pulse, parse_pulse, pulse_files
from rltrain_ranks.stacks import Process, main_thread, stack_file, stacks
from rltrain_ranks.watch.collectives import last_collectives
from rltrain_ranks.watch.patience import Patience, shortest
from rltrain_ranks.watch.verdict import Hang, Place, find_missing

__all__ = ["HangWatch", "hang_watch"]

_PERIOD = 1.0
"""Seconds between two looks."""

_ASLEEP = 30.0
"""Seconds between two looks from which on this process must have been stopped itself."""

_BUSY, _BUSY_FOR = 0.1, 0.5
"""The share of a core from which a process counts as busy, and the seconds over which it is
measured."""


def hang_watch(reports: Path, timeout: float | str | None, nodes: int) -> Callable[[], None]:
    """Return a function for a launcher to call again and again: it ends ranks that hang.

    Args:
        reports: the folder where its ranks report.
        timeout: the option `hang_timeout`.
        nodes: number of nodes of the run.
    """
    board_of(reports)  # While it is there.
    watch = HangWatch(lambda: pulse_files(reports), timeout, nodes)

    def look() -> None:
        hang = watch.look()
        if hang is not None:
            hang.write_report(reports)
            hang.end()

    return look


class _Held(io.FileIO):
    """A file that is open for as long as somebody holds it."""

    def __del__(self) -> None:
        self.close()


class HangWatch:
    """Looks at the ranks of one machine, again and again."""

    def __init__(
        self,
        files: Callable[[], Mapping[int, Path]],
        timeout: float | str | None,
        nodes: int = 1,
    ) -> None:
        """Watch ranks.

        Args:
            files: returns the files with the pulses of this machine's ranks, by rank.
            timeout: the option `hang_timeout`.
            nodes: number of nodes of the run.
        """
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
        if not late or any(self._moved(place) or place.is_debugged for place in late):
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
        found = []
        for place, process in zip(places, before, strict=True):
            text, now = texts.get(place.rank, ""), Process.look(place.pulse.pid)
            frames = main_thread(text, place.pulse.thread)
            found.append(
                replace(
                    place,
                    busy=_is_busy(process, now, seconds),
                    frames=frames,
                    stacks=text,
                    collectives=recorded.get(place.rank, ""),
                )
            )
        return found

    def _moved(self, place: Place) -> bool:
        """Whether a rank has made progress since; one that was stopped goes on when asked."""
        return not place.stopped and self._pulse(place.rank) != place.pulse


def _is_busy(before: Process | None, now: Process | None, seconds: float) -> bool:
    """Whether a process has used a core, or wants one that others use."""
    if before is None or now is None:
        return False
    return before.state == now.state == "R" or now.seconds - before.seconds > _BUSY * seconds
