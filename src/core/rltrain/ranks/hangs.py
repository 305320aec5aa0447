"""Finds ranks that make no progress, and ends them.

Their launcher watches them. Those that no launcher of rltrain started watch each other: each one
those of its machine.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from rltrain.ranks.logs import console_stream
from rltrain.ranks.pulse import Pulse, pulse_file, read_pulse
from rltrain.ranks.stacks import Process, main_thread, stack_file, stacks
from rltrain.ranks.verdict import Hang, RankState, find_missing

SECTIONS = ("start", "step", "checkpoint", "end")
"""Sections of a run, each with a time-out of its own."""

_LONG = 1800.0
"""Seconds without progress outside of iterations, unless the option says otherwise: simulators
load, and programs compile, for minutes."""

_SHORTEST = 300.0
"""The shortest default time-out, in seconds: something may compile again in a later iteration."""

_TIMES = 10.0
"""The default time-out, in times of the longest iteration so far."""

_SOON, _PERIOD = 0.05, 1.0
"""The shortest and the longest time between two checks, in seconds."""

_ASLEEP = 30.0
"""Seconds between two checks from which on this process must have been stopped itself."""

_BUSY, _BUSY_FOR = 0.1, 0.5
"""The share of a core from which a process counts as busy, and the seconds over which it is
measured."""

_FAREWELL = 15.0
"""Seconds in which a rank must notice by itself that another one, which hung, has been ended."""


class Patience:
    """How long a rank may make no progress, by the option `hang_timeout`.

    It has seconds by section, 0 for ever; other sections have the default.
    """

    def __init__(self, given: Mapping[str, float] | None) -> None:
        self._given = given or {}
        self.period = max(_SOON, min([_PERIOD, *(x / 4 for x in self._given.values() if x)]))
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
    return "step" if pulse.iteration else "start"  # Programs compile in the first iteration.


class HangWatch:
    """Checks the ranks of one machine; call `look` again and again."""

    def __init__(
        self,
        files: Callable[[], Mapping[int, Path]],
        timeout: Mapping[str, float] | None,
        nodes: int = 1,
    ) -> None:
        """Watch ranks: `files` returns the pulses of this machine's, by rank."""
        self._files, self._has_neighbors = files, nodes > 1
        self._patience = Patience(timeout)
        self.period = self._patience.period
        self._seen: dict[int, tuple[Pulse, float]] = {}
        self._looked = 0.0

    def look(self) -> Hang | None:
        """Return which ranks make no progress; None if it is too early to look again, too."""
        now = time.monotonic()
        if now - self._looked < self.period:
            return None
        if now - self._looked > _ASLEEP:
            self._seen.clear()  # This process or the machine was stopped: so were the ranks.
        self._looked, files = now, self._files()
        states = self._states(files, now)
        if not any(self._is_late(state, states) for state in states):
            return None
        states = _with_answers(states, files)
        late = [state for state in states if self._is_late(state, states)]
        # One that was stopped continues when asked, and has made no progress.
        moved = [x for x in late if not x.stopped and read_pulse(files[x.rank]) != x.pulse]
        if not late or moved or any(state.is_debugged for state in late):
            self._seen.clear()  # Look closely again after as long.
            return None
        option = self._patience.option(late[0].pulse)
        return find_missing(states, late, files[late[0].rank], self._has_neighbors, option)

    def _states(self, files: Mapping[int, Path], now: float) -> list[RankState]:
        """Return where the ranks are that have not ended."""
        states = []
        for rank, path in files.items():
            pulse = read_pulse(path)
            process = Process.look(pulse.pid) if pulse is not None else None
            if pulse is None or process is None:
                continue
            if pulse != self._seen.get(rank, (None,))[0]:
                self._seen[rank] = pulse, now
            states.append(RankState(rank, pulse, now - self._seen[rank][1], process.stopped))
        if states:
            self._patience.note(states[0].pulse, now)
        return states

    def _is_late(self, state: RankState, states: list[RankState]) -> bool:
        """Whether a rank that others wait for has made no progress for too long.

        If all wait, the missing rank may be on another node, whose launcher names it.
        """
        limit = self._patience.seconds(state.pulse)
        if all(other.waiting or other.ended for other in states):
            limit *= 2 if self._has_neighbors else 1
            return state.waiting and state.seconds > limit
        return not state.waiting and not state.ended and state.seconds > limit


def _with_answers(states: list[RankState], files: Mapping[int, Path]) -> list[RankState]:
    """Return the same states with the stacks that the ranks answer."""
    started, before = time.monotonic(), [Process.look(state.pulse.pid) for state in states]
    paths = {state.rank: files[state.rank] for state in states}
    texts = stacks({x.rank: (x.pulse.pid, stack_file(paths[x.rank])) for x in states})
    time.sleep(max(0.0, started + _BUSY_FOR - time.monotonic()))
    seconds = time.monotonic() - started
    return [
        replace(
            state,
            busy=_is_busy(process, Process.look(state.pulse.pid), seconds),
            frames=main_thread(texts.get(state.rank, ""), state.pulse.thread),
            stacks=texts.get(state.rank, ""),
        )
        for state, process in zip(states, before, strict=True)
    ]


def _is_busy(before: Process | None, now: Process | None, seconds: float) -> bool:
    """Whether a process has used a core, or wants one that others use."""
    if before is None or now is None:
        return False
    return before.state == now.state == "R" or now.seconds - before.seconds > _BUSY * seconds


@contextlib.contextmanager
def bounded(given: Mapping[str, float] | None) -> Iterator[None]:
    """End this process, with its stacks, if it stays in the context for longer than `start` says.

    So ends what a user's code does before there is a rank to watch.
    """
    seconds = Patience(given).seconds(Pulse(0, 0, 0, 0, 0, "starting", waiting=False, call=""))
    if seconds < float("inf"):
        faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def watching(
    rank: int,
    folder: Path,
    gather: Callable[[tuple[str, str]], list[tuple[str, str]]],
    timeout: Mapping[str, float] | None,
) -> Iterator[None]:
    """End ranks of this machine that hang, in a thread. Collective.

    `folder` is this rank's private one; `gather` returns what each rank gives.
    """
    # What only processes of this machine share: its host name may be another's, too.
    boot = Path("/proc/sys/kernel/random/boot_id")
    here = boot.read_text().strip() if boot.exists() else socket.gethostname()
    folders = gather((here, str(folder)))
    pulses = {
        other: pulse_file(Path(folder), other)
        for other, (there, folder) in enumerate(folders)
        if there == here and pulse_file(Path(folder), other).exists()
    }
    watch = HangWatch(lambda: pulses, timeout, nodes=1 + (len(pulses) < len(folders)))
    over = threading.Event()

    def look() -> None:
        while not over.wait(watch.period):
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
