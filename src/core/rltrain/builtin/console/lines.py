"""The run as plain lines."""

from __future__ import annotations

from typing import TextIO

from rltrain.builtin.console.state import RunState
from rltrain.builtin.console.words import duration, number, percent, shortest, speed
from rltrain.records import Scalars
from rltrain.terminal import plain_stream

__all__ = ["Lines", "summary"]

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
