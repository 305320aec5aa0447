"""Says which rank is missing, given where the ranks of a machine are, or slow."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltrain.ranks.pulse import Pulse
from rltrain.ranks.reports import Kind, Report, write_report
from rltrain.ranks.stacks import Frame

_FACTOR = 2.0
"""A rank is slow if it takes this many times as long as the median."""
_IN_A_ROW = 10
"""Iterations after which a slow rank is named."""
_SHORTEST = 0.01
"""Seconds of an iteration, below which differences are noise."""
_SHARE = 0.25
"""Share of the median iteration that a slow rank costs at least."""


@dataclass(frozen=True)
class RankState:
    """Where a rank is."""

    rank: int
    pulse: Pulse
    seconds: float
    """Since when it has made no progress."""
    stopped: bool = False
    busy: bool = False
    frames: tuple[Frame, ...] = ()
    """What its main thread executes, the innermost line first; empty if it did not answer."""
    stacks: str = ""
    """What all of its threads execute, as faulthandler writes it."""

    @property
    def is_debugged(self) -> bool:
        """Whether it stands in a debugger of Python."""
        return any(frame.is_of_debugger for frame in self.frames)

    @property
    def ended(self) -> bool:
        """Whether it has left training, and only its process is there."""
        return self.pulse.phase == "ended"

    @property
    def waiting(self) -> bool:
        """Whether it waits for other ranks."""
        by_torch = bool(self.frames) and self.frames[0].is_of_torch_distributed
        return not self.stopped and (self.pulse.waiting or by_torch)

    @property
    def line(self) -> Frame | None:
        """The innermost line of the task or the library."""
        own = (frame for frame in self.frames if frame.is_of_the_user)
        return next(own, self.frames[0] if self.frames else None)

    def __str__(self) -> str:
        pulse, where = self.pulse, f", at {self.line}" if self.line else ""
        if self.ended:
            return f"rank {self.rank} has left training after iteration {pulse.iteration}"
        if self.waiting:
            call = f" ({pulse.call})" if pulse.waiting else ""
            what = f"waits in collective {pulse.collectives}{call}"
        elif self.stopped:
            what = f"is stopped (SIGSTOP, or a debugger) while {pulse.phase}"
        else:
            what = f"{'is busy' if self.busy else 'sleeps'} while {pulse.phase}"
        return f"rank {self.rank} {what}{pulse.when}{where}"


@dataclass(frozen=True)
class Hang:
    """What was found."""

    message: str
    culprits: tuple[int, ...]
    """The ranks to end; the first one is to blame."""
    pids: Mapping[int, int]
    is_elsewhere: bool = False
    """Whether the missing rank is on another node."""

    def write_report(self, folder: Path) -> None:
        """Leave what was found to the launcher, as if the rank had failed."""
        kind: Kind = "peer_lost" if self.is_elsewhere else "hang"
        rank = self.culprits[0]
        write_report(folder, Report(rank, time.time(), kind, self.message, self.message))

    def end(self, all_but: int | None = None) -> None:
        """End the ranks at once, but not the one that calls: those that hang hear nothing else."""
        for rank in self.culprits:
            with contextlib.suppress(ProcessLookupError):
                if rank != all_but:
                    os.kill(self.pids[rank], signal.SIGKILL)


def find_missing(
    states: list[RankState], late: list[RankState], path: Path, has_neighbors: bool, option: str
) -> Hang:
    """Say which rank is missing, given where the ranks of this machine are.

    Those that are `late` have made no progress for longer than `option` says.
    """
    waiting = all(state.waiting or state.ended for state in states)
    behind = min(state.pulse.collectives for state in late)
    if not waiting and len(late) == len(states):
        # A backend that returns at once shows no one waiting: who has begun fewer is behind.
        late = [state for state in late if state.pulse.collectives == behind]
    seconds = f"{max(state.seconds for state in late):.0f} s ({option})"
    # If all wait, one that has not waited for long yet may be in another collective.
    in_calls = [state for state in states if state.waiting] if waiting else late
    calls = {(state.pulse.collectives, state.pulse.call) for state in in_calls}
    if not waiting:
        ranks = " and ".join(str(state.rank) for state in late)
        head = f"Rank {ranks} hangs" if len(late) == 1 else f"Ranks {ranks} hang"
        head += f", without progress for {seconds}: " + "; ".join(map(str, late))
    elif len(calls) > 1:
        late = late[-1:]
        head = f"The ranks wait in different collectives, for {seconds}: {late[0]}"
    else:
        head = f"No progress for {seconds}: {'; '.join(map(str, late))}. The rank that is missing "
        head += "is on another node" if has_neighbors else "has left"
        head += ", or the network is at fault"
    others = [f"  {state}" for state in states if state not in late]
    message = "\n".join([f"{head}.", *others, *_keep(states, head, path)])
    culprits = tuple(state.rank for state in late)
    pids = {state.rank: state.pulse.pid for state in states}
    is_elsewhere = waiting and len(calls) == 1 and has_neighbors
    return Hang(message, culprits, pids, is_elsewhere)


def _keep(states: list[RankState], head: str, path: Path) -> list[str]:
    """Write the stacks next to the ranks' logs, and return where they are."""
    log = path.with_suffix(".log").resolve()
    if log.parent == path.parent.resolve():
        return []  # There is no run folder yet.
    file, texts = log.with_name("hang.txt"), []
    for state in states:
        texts.append(f"== rank {state.rank}\n\n{state.stacks or 'It did not answer.'}\n")
    try:
        with file.open("a") as out:
            out.write("\n".join([time.strftime("%Y-%m-%d %H:%M:%S"), head, "", *texts, ""]))
    except OSError as error:
        return [f"The stacks of all threads could not be written: {error}"]
    return [f"The stacks of all threads: {file}"]


class Stragglers:
    """Names each slow rank once. All ranks may ask: the answers are equal."""

    def __init__(self) -> None:
        self._is_first = True
        self._counts: dict[tuple[int, str], int] = {}
        self._named: set[int] = set()

    def find(self, seconds: Sequence[tuple[float, float]]) -> list[str]:
        """Count an iteration, and describe the ranks that are slow since some time.

        By rank, `seconds` are its own in its environments and in everything else, without those in
        which it waits for others.
        """
        total = statistics.median_low(map(sum, seconds))
        is_first, self._is_first = self._is_first, False  # It compiles, and loads.
        if is_first or total < _SHORTEST:
            return []
        rollout, update = (statistics.median_low(column) for column in zip(*seconds, strict=True))
        lines = []
        for rank, own in enumerate(seconds):
            # Where collectives return before they are done, waiting is part of the update. But then
            # all ranks take the same time in total.
            for phase, taken, median, more in (
                ("stepping its environments (rollout)", own[0], rollout, own[0] - rollout),
                ("everything else (update)", own[1], update, sum(own) - total),
            ):
                slow = taken >= _FACTOR * median and more >= _SHARE * total
                count = self._counts.get((rank, phase), 0) + 1 if slow else 0
                self._counts[rank, phase] = count
                if count >= _IN_A_ROW and rank not in self._named:
                    self._named.add(rank)
                    times = f"{taken / median:.1f} times as long as" if median else "longer than"
                    lines.append(
                        f"Rank {rank} is slow, and the others wait for it: {_IN_A_ROW} iterations "
                        f"in a row, {phase} took it {times} the median of all ranks, now "
                        f"{taken:.3g} s an iteration, not {median:.3g} s."
                    )
        return lines
