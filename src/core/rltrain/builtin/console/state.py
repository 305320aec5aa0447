"""What the console knows of a run, and numbers, times and paths as it shows them."""

from __future__ import annotations

import math
import os
import shlex
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from rltrain.records import CheckpointSaved, Record, RunEnded, RunStarted, Scalars, Warned


def number(value: float | None) -> str:
    """Return a value with four digits or one decimal place, "-" if there is none."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e9 else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share, 0 to 1, in percent."""
    return f"{share:.0%}"


def speed(fps: tuple[float, ...]) -> str:
    """Return frames per second of all ranks together, and of each."""
    each = " + ".join(f"{rank:,.0f}" for rank in fps)
    if len(fps) > 4:
        each = f"{min(fps):,.0f}..{max(fps):,.0f} a rank"
    return f"{sum(fps):,.0f} ({each})" if len(fps) > 1 else each or "-"


def duration(seconds: float) -> str:
    """Return a time as minutes and seconds, and hours if there are some."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def shortest(path: str | Path) -> str:
    """Return an absolute path, or the same from the current folder if that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


_RECENT = 20
"""Iterations over which shares of the time are taken: in a single one it is mostly chance."""


_STANDS_OUT = 1.1
"""How much more than the median rank's the work of a slowest rank is, at least."""


@dataclass(frozen=True)
class Shares:
    """Shares of all ranks' time, 0 to 1."""

    waiting: float
    communication: float
    slowest: int | None
    """The rank for which the others wait, if there is one."""

    def __str__(self) -> str:
        reason = "" if self.slowest is None else f" (for rank {self.slowest})"
        return f"{percent(self.waiting)}{reason}, communication {percent(self.communication)}"


@dataclass
class RunState:
    """The state of the run, according to the records so far."""

    started: RunStarted
    first: Scalars | None = None
    latest: Scalars = field(default_factory=lambda: Scalars(0, {}))
    best: Scalars | None = None
    """The iteration with the greatest return."""
    checkpoint: CheckpointSaved | None = None
    saved: float = 0.0
    """When the checkpoint was saved."""
    warnings: list[Warned] = field(default_factory=list)
    ended: RunEnded | None = None
    start_time: float = field(default_factory=time.monotonic)
    _recent: deque[Scalars] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def update(self, record: Record) -> None:
        """Take account of a record."""
        if isinstance(record, Scalars):
            self.first, self.latest = self.first or record, record
            self._recent.append(record)
            if _return(record) > _return(self.best):
                self.best = record
        elif isinstance(record, CheckpointSaved):
            self.checkpoint, self.saved = record, time.monotonic()
        elif isinstance(record, Warned):
            self.warnings.append(record)
        elif isinstance(record, RunEnded):
            self.ended = record

    @property
    def heading(self) -> str:
        """The library, the ranks and the seed."""
        run, world = self.started, self.started.world
        ranks = f"1 rank on {world.device}"
        if world.world_size > 1:
            ranks = f"{world.world_size} ranks on {world.device.partition(':')[0]}"
        if world.num_nodes > 1:
            ranks += f", {world.num_nodes} nodes"
        return f"{run.library} {run.algorithm}  {ranks}  seed {run.seed}"

    @property
    def preface(self) -> list[str]:
        """Lines to show before the first iteration."""
        run, lines = self.started, []
        if run.iteration is not None:
            lines.append(run.iteration.experience(run.num_envs, run.world.world_size))
        return [*lines, run.resumed] if run.resumed else lines

    @property
    def status(self) -> str:
        """In one word, whether and how the run has ended."""
        return "training" if self.ended is None else self.ended.outcome

    @property
    def end(self) -> str:
        """The status, with the limit that has ended the run before its iterations were done."""
        limit = self.ended.limit if self.ended is not None else ""
        return f"{self.status} at {limit}" if limit else self.status

    @property
    def iteration(self) -> str:
        """Iterations done, of how many."""
        now = self.latest
        total = "" if now.iterations is None else str(now.iterations)
        return f"{now.iteration:{len(total) or 1}}" + (total and f"/{total}")

    @property
    def shares(self) -> Shares | None:
        """Where the ranks' time goes; None if no rank has another to wait for."""
        if self.started.world.world_size == 1 or not self._recent:
            return None
        whole = sum(sum((*each.rollout, *each.update, *each.collectives)) for each in self._recent)
        if not whole:
            return None
        waiting = sum(sum(each.waiting) for each in self._recent)
        communication = sum(each.communication * len(each.collectives) for each in self._recent)
        return Shares(waiting / whole, communication / whole, self._slowest())

    def _slowest(self) -> int | None:
        """Return the rank whose own work takes longest, if that stands out."""
        recent = [each for each in self._recent if len(each.rollout) == len(self.latest.rollout)]
        own = [
            sum(each.rollout[rank] + each.update[rank] for each in recent)
            for rank in range(len(self.latest.rollout))
        ]
        rank = max(range(len(own)), key=own.__getitem__)
        return rank if own[rank] > _STANDS_OUT * statistics.median_low(own) else None

    @property
    def elapsed(self) -> float:
        """Seconds of training."""
        return self.ended.seconds if self.ended else time.monotonic() - self.start_time

    def left(self, elapsed: float) -> str:
        """Return the estimated time left as text, or "" if unknown."""
        first, now = self.first, self.latest
        if first is None or now.iterations is None or self.ended is not None:
            return ""
        # The first iteration includes warmup and compilation: use it only while it is the only one.
        done, seconds = now.iteration - first.iteration, now.seconds - first.seconds
        pace = seconds / done if done > 0 else now.seconds
        due = now.seconds + pace * (now.iterations - now.iteration)
        return f"left {duration(due - elapsed)}"

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What to do next, and how, once the run has ended as it should."""
        if self.ended is None or self.ended.error is not None:
            return []
        config = self.started.config
        run, task = shlex.quote(shortest(self.started.run_dir)), str(config.get("task"))
        # No module is imported because a run folder names it.
        used = f"{run} --task {shlex.quote(task)}" if ":" in task else run
        commands = []
        if self.checkpoint is not None:
            commands += [("to play", f"rltrain play {used}")]
            commands += [("to evaluate", f"rltrain evaluate {used}")]
            commands += [("to export", f"rltrain export {used}")]
        commands += [("to report", f"rltrain report {run}")]
        if self.ended.asked:
            # Others must start the ranks, or all nodes.
            by_others = config.get("cluster") or config.get("nnodes", 1) > 1
            again = "the same command with --checkpoint latest"
            commands += [("to go on", again if by_others else f"rltrain --resume {used}")]
        return commands


def _return(record: Scalars | None) -> float:
    """Return an iteration's return, which can be compared."""
    found = record.episode_return if record is not None else None
    return found if found is not None and math.isfinite(found) else -math.inf
