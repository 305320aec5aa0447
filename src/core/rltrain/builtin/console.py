"""The console writer: plain lines, and what another view of a run shares with them."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rltrain.hookspecs import hookimpl
from rltrain.records import CheckpointSaved, Record, RunEnded, RunStarted, Scalars, Warned
from rltrain.terminal import plain_stream

__all__ = [
    "ConsoleWriter",
    "RunState",
    "View",
    "duration",
    "number",
    "shortest",
    "speed",
    "summary",
]

_INTERVAL = 1.0
"""Seconds between two lines. The first and the last are always printed."""

_WARNINGS = 3
"""How many warnings the end repeats."""

_RECENT = 20
"""Iterations over which shares of the time are taken: in a single one it is mostly chance."""


def number(value: float | None) -> str:
    """Return a value with four digits or one decimal place, "-" if there is none."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e9 else f"{value:.4g}"


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
            value = record.episode_return
            best = self.best.episode_return if self.best is not None else None
            if value is not None and math.isfinite(value) and (best is None or value > best):
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
    def shares(self) -> str:
        """Shares of all ranks' time that they wait; "" if no rank has another to wait for."""
        whole = sum(sum((*each.rollout, *each.update, *each.collectives)) for each in self._recent)
        if self.started.world.world_size == 1 or not whole:
            return ""
        waiting = sum(sum(each.waiting) for each in self._recent)
        communication = sum(each.communication * len(each.collectives) for each in self._recent)
        return f"{waiting / whole:.0%}, communication {communication / whole:.0%}"

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


def summary(run: RunState) -> list[str]:
    """Return lines that say what to do next, once the run has ended as it should."""
    if run.ended is None or run.ended.error is not None:
        return []
    config = run.started.config
    folder, task = shlex.quote(shortest(run.started.run_dir)), str(config.get("task"))
    # No module is imported because a run folder names it.
    used = f"{folder} --task {shlex.quote(task)}" if ":" in task else folder
    saved = run.checkpoint is not None
    commands = [
        (verb, f"rltrain {verb} {used}") for verb in ("play", "evaluate", "export") if saved
    ]
    commands.append(("report", f"rltrain report {folder}"))
    if run.ended.asked:
        # Others must start the ranks, or all nodes.
        by_others = config.get("cluster") or config.get("nnodes", 1) > 1
        again = "the same command with --checkpoint latest"
        commands.append(("resume", again if by_others else f"rltrain --resume {used}"))
    return [f"to {verb:8}  {command}" for verb, command in commands]


class View:
    """Shows a run's state to the user: here by a line now and then."""

    def __init__(self, run: RunState, stream: TextIO) -> None:
        self._run, self._stream = run, plain_stream(stream)
        self._printed: Scalars | None = None

    def start(self) -> None:
        """Show what the run is."""
        self._print(self._run.started.task, self._run.heading)
        self._print("run folder", shortest(self._run.started.run_dir))
        for line in self._run.preface:
            self._print(line)

    def update(self) -> None:
        """Show what is new."""
        run, now, printed = self._run, self._run.latest, self._printed
        last = run.ended is not None or now.iteration == now.iterations
        due = printed is None or last or now.seconds - printed.seconds >= _INTERVAL
        if due and now is not printed and run.first is not None:
            self._printed = now
            waiting = f"waiting {run.shares}" if run.shares else ""
            words = [f"fps {speed(now.fps)}", waiting, run.left(now.seconds)]
            self._print(*self._progress(), *filter(None, words))

    def stop(self) -> None:
        """Show how the run has ended, if it has."""
        run = self._run
        if run.ended is None:
            return
        self._print(run.end, *self._progress(), f"time {duration(run.elapsed)}")
        for warning in run.warnings[-_WARNINGS:]:
            self._print(f"warned in iteration {warning.iteration}", warning.text)
        if run.checkpoint is not None:
            self._print("checkpoint", shortest(run.checkpoint.path))
        self._print("run folder", shortest(run.started.run_dir))
        for line in summary(run):
            self._print(line)

    def _progress(self) -> list[str]:
        run, now = self._run, self._run.latest
        text = number(now.episode_return)
        if run.best is not None and run.best is not now:
            text += f" (best {number(run.best.episode_return)})"
        length = number(now.episode_length)
        words = [f"iteration {run.iteration}", f"return {text}", f"length {length}"]
        if now.success_rate is not None:
            words.append(f"success {now.success_rate:.0%}")
        return [*words, f"frames {now.frames:,}"]

    def _print(self, *words: str) -> None:
        print(*words, sep="  ", file=self._stream, flush=True)


class ConsoleWriter:
    """Shows a run's progress to the user who started it, by default on the terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._run: RunState | None = None
        self._view: View | None = None

    def view(self, run: RunState, stream: TextIO) -> View:
        """Return what shows a run: plain lines. A plugin with another view overrides it."""
        return View(run, stream)

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Show what the record changes."""
        if self._stream is None:
            from rltrain.launch import console_stream

            self._stream = console_stream()
        if isinstance(record, RunStarted):
            self._run = RunState(record)
            self._view = self.view(self._run, self._stream)
            self._view.start()
        elif self._run is not None and self._view is not None:
            self._run.update(record)
            self._view.update()
        elif isinstance(record, RunEnded):
            print("failed before training began", file=self._stream, flush=True)

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """Show how the run has ended."""
        if self._view is not None:
            self._view.stop()
            self._view = None
