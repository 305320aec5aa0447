"""The console writer: plain lines, and what another view of a run shares with them."""

from __future__ import annotations

from typing import Protocol, TextIO

from rltrain.builtin.console.state import (
    RunState,
    Shares,
    duration,
    number,
    percent,
    shortest,
    speed,
)
from rltrain.hookspecs import hookimpl
from rltrain.records import Record, RunEnded, RunStarted, Scalars
from rltrain.terminal import plain_stream

__all__ = [
    "ConsoleWriter",
    "RunState",
    "Shares",
    "View",
    "duration",
    "number",
    "percent",
    "shortest",
    "speed",
    "summary",
]

_INTERVAL = 1.0
"""Seconds between two lines. The first and the last are always printed."""
_WARNINGS = 3
"""How many warnings the end repeats."""


class Lines:
    """Prints a line now and then."""

    def __init__(self, run: RunState, stream: TextIO) -> None:
        self._run, self._stream = run, plain_stream(stream)
        self._printed: Scalars | None = None

    def start(self) -> None:
        """Print what the run is."""
        self._print(self._run.started.task, self._run.heading)
        self._print("run folder", shortest(self._run.started.run_dir))
        for line in self._run.preface:
            self._print(line)

    def update(self) -> None:
        """Print what is new, if it is time."""
        run, now, printed = self._run, self._run.latest, self._printed
        last = run.ended is not None or now.iteration == now.iterations
        due = printed is None or last or now.seconds - printed.seconds >= _INTERVAL
        if due and now is not printed and run.first is not None:
            self._printed = now
            self._print(*_progress(run), *_speed(run), *filter(None, [run.left(now.seconds)]))

    def stop(self) -> None:
        """Print how the run has ended."""
        run = self._run
        if run.ended is None:
            return
        self._print(run.end, *_progress(run), f"time {duration(run.elapsed)}")
        for warning in run.warnings[-_WARNINGS:]:
            self._print(f"warned in iteration {warning.iteration}", warning.text)
        if run.checkpoint is not None:
            self._print("checkpoint", shortest(run.checkpoint.path))
        self._print("run folder", shortest(run.started.run_dir))
        for line in summary(run):
            self._print(line)

    def _print(self, *words: str) -> None:
        print(*words, sep="  ", file=self._stream, flush=True)


def summary(run: RunState) -> list[str]:
    """Return lines that say what to do next."""
    return [f"{what:11}  {command}" for what, command in run.commands]


def _progress(run: RunState) -> list[str]:
    now, best = run.latest, run.best
    text = number(now.episode_return)
    if best is not None and best is not now:
        text += f" (best {number(best.episode_return)})"
    words = [f"iteration {run.iteration}", f"return {text}", f"length {number(now.episode_length)}"]
    if now.success_rate is not None:
        words.append(f"success {percent(now.success_rate)}")
    return [*words, f"frames {now.frames:,}"]


def _speed(run: RunState) -> list[str]:
    words = [f"fps {speed(run.latest.fps)}"]
    if run.shares is not None:
        words.append(f"waiting {run.shares}")
    return words


class View(Protocol):
    """Shows a run's state."""

    def start(self) -> None:
        """Show what the run is."""

    def update(self) -> None:
        """Show what is new."""

    def stop(self) -> None:
        """Show how the run has ended, if it has."""


class ConsoleWriter:
    """Shows a run's progress to the user who started it.

    Args:
        stream: where to write; by default the terminal's stdout as it was before the ranks
            redirected their output to log files.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._run: RunState | None = None
        self._view: View | None = None

    def view(self, run: RunState, stream: TextIO) -> View:
        """Return what shows a run: plain lines. A plugin with another view overrides it."""
        return Lines(run, stream)

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
