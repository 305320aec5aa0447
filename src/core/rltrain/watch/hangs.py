"""Finds ranks that make no progress, and ends them."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rltrain.config import Placement
from rltrain.launch.board import board_of
from rltrain.launch.pulse import Pulse, parse_pulse, pulse_files
from rltrain.launch.stacks import Process, main_thread, stack_file, stacks
from rltrain.options.checks import sections
from rltrain.watch.collectives import last_collectives
from rltrain.watch.verdict import Hang, Place, find_missing

__all__ = ["HangWatch", "Patience", "hang_watch", "shortest"]

_LONG = 1800.0
"""Seconds without progress outside of iterations, unless the option says otherwise: simulators
load, and programs compile, for minutes."""

_SHORTEST = 300.0
"""The shortest default time-out, in seconds: something may compile again in a later iteration."""

_TIMES = 10.0
"""The default time-out, in times of the longest iteration so far."""

_PERIOD = 1.0
"""Seconds between two looks."""

_ASLEEP = 30.0
"""Seconds between two looks from which on this process must have been stopped itself."""

_BUSY, _BUSY_FOR = 0.1, 0.5
"""The share of a core from which a process counts as busy, and the seconds over which it is
measured."""


class Patience:
    """How long a rank may make no progress."""

    def __init__(self, timeout: float | str | None) -> None:
        """Start with a fixed time-out, or none.

        Args:
            timeout: the option `hang_timeout`: seconds within an iteration, 0 for ever; None
                follows the longest iteration. As a text, the seconds of each section of a run.
        """
        self._given = sections(timeout)
        self._longest = 0.0
        self._iteration = 0
        self._since: float | None = None
        """When the iteration was seen to begin."""

    def note(self, pulse: Pulse, now: float) -> None:
        """Note how far the run is."""
        if pulse.phase == "starting":
            return
        if self._since is not None and pulse.iteration != self._iteration:
            self._longest = max(self._longest, now - self._since)
            self._since = None
        if self._since is None:
            self._iteration, self._since = pulse.iteration, now

    def restart(self) -> None:
        """Note that the ranks begin again."""
        self._since = None

    def seconds(self, pulse: Pulse) -> float:
        """Return for how long a rank may stay as it is."""
        section = _section(pulse)
        step = self._given.get("step", max(_SHORTEST, _TIMES * self._longest))
        usual = step if section == "step" or step == 0 else max(_LONG, step)
        return self._given.get(section, usual) or float("inf")

    def option(self, pulse: Pulse) -> str:
        """Return the option that says so."""
        return f"--hang-timeout {_section(pulse)}={self.seconds(pulse):.0f}"


def _section(pulse: Pulse) -> str:
    """Return the section of its run that a rank is in."""
    if pulse.phase == "saving a checkpoint":
        return "checkpoint"
    if pulse.phase in ("ending", "ended"):
        return "end"
    if pulse.phase == "playing episodes":
        return "step"
    # Until it has done an iteration since it was started, programs compile.
    return "start" if pulse.phase == "starting" or not pulse.iteration else "step"


def shortest(timeout: float | str | None) -> float:
    """Return the shortest time-out, by the option `hang_timeout`."""
    return min([_SHORTEST, *filter(None, sections(timeout).values())])


def hang_watch(config: Placement, reports: Path) -> Callable[[], None]:
    """Return a function for a launcher to call again and again: it ends ranks that hang.

    Args:
        config: where the run runs.
        reports: the folder where its ranks report.
    """
    board_of(reports)  # While it is there.
    watch = HangWatch(lambda: pulse_files(reports), config.hang_timeout, config.nnodes)

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
