"""The console writer: a live view on a terminal, plain lines in a pipe or a log file."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from rltrain.hookspecs import hookimpl
from rltrain.records import CheckpointSaved, Record, RunEnded, RunStarted, Scalars

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

__all__ = ["ConsoleWriter"]

LINE_INTERVAL = 1.0
"""Seconds between plain lines. The first and the last are always printed."""
PREFERRED = (r"learning.?rate|(?<![a-z])lr(?![a-z])", "loss", "kl|entropy", "")
"""Patterns of the scalar names that the live view shows first, in this order."""


class ConsoleWriter:
    """Shows a run's progress to the user who started it.

    Args:
        stream: where to write; by default the terminal's stdout as it was before the ranks
            redirected their output to log files.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._run: _Run | None = None
        self._live: Live | None = None
        self._printed: Scalars | None = None

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Show what the record changes."""
        if self._stream is None:
            from rltrain.launch import console_stream

            self._stream = console_stream()
        if isinstance(record, RunStarted):
            self._run = _Run(record)
            self._live = _start_live(self._run, self._stream)
            if self._live is None:
                self._print(record.task, self._run.heading)
                self._print("run folder", _shortest(record.run_dir))
                for line in self._run.preface:
                    self._print(line)
        elif self._run is not None:
            self._run.update(record)
            if self._live is None:
                self._print_update(self._run)
        elif isinstance(record, RunEnded):
            self._print("failed before training began")

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """Leave the last state on screen."""
        if self._live is not None:
            self._live.stop()

    def _print_update(self, run: _Run) -> None:
        now, printed = run.latest, self._printed
        metrics = [" ".join(metric) for metric in run.metrics]
        last = run.ended is not None or now.iteration == now.iterations
        due = printed is None or last or now.seconds - printed.seconds >= LINE_INTERVAL
        if due and now is not printed and run.first is not None:
            self._printed = now
            self._print(*metrics, *filter(None, [run.left(now.seconds)]))
        if run.ended is not None:
            self._print(run.status, *metrics[:-1], f"time {_duration(run.elapsed)}")
            if run.checkpoint is not None:
                self._print("checkpoint", _shortest(run.checkpoint.path))
            self._print("run folder", _shortest(run.started.run_dir))
            if run.ended.asked:
                self._print("to go on", run.command_to_go_on)

    def _print(self, *words: str) -> None:
        print(*words, sep="  ", file=self._stream, flush=True)


@dataclass
class _Run:
    """The state of the run, according to the records so far."""

    started: RunStarted
    first: Scalars | None = None
    latest: Scalars = field(default_factory=lambda: Scalars(0, {}))
    checkpoint: CheckpointSaved | None = None
    ended: RunEnded | None = None
    start_time: float = field(default_factory=time.monotonic)

    def update(self, record: Record) -> None:
        if isinstance(record, Scalars):
            self.first, self.latest = self.first or record, record
        elif isinstance(record, CheckpointSaved):
            self.checkpoint = record
        elif isinstance(record, RunEnded):
            self.ended = record

    @property
    def heading(self) -> str:
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
        if self.ended is None:
            return "training"
        if self.ended.error is None:
            return "stopped" if self.ended.asked else "solved" if self.ended.solved else "finished"
        return "interrupted" if self.ended.error.startswith("KeyboardInterrupt") else "failed"

    @property
    def command_to_go_on(self) -> str:
        config = self.started.config
        # Others must start the ranks, or all nodes.
        if config.get("cluster") or config.get("nnodes", 1) > 1:
            return "the same command with --checkpoint latest"
        return f"rltrain --resume {shlex.quote(_shortest(self.started.run_dir))}"

    @property
    def metrics(self) -> list[tuple[str, str]]:
        now = self.latest
        total = "" if now.iterations is None else str(now.iterations)
        return [
            ("iteration", f"{now.iteration:{len(total) or 1}}" + (total and f"/{total}")),
            ("return", _number(now.episode_return)),
            ("length", _number(now.episode_length)),
            *([("success", f"{now.success_rate:.0%}")] if now.success_rate is not None else []),
            ("frames", f"{now.frames:,}"),
            ("fps", _speed(now.fps)),
        ]

    @property
    def elapsed(self) -> float:
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
        return f"left {_duration(due - elapsed)}"


def _start_live(run: _Run, stream: TextIO) -> Live | None:
    """Start a view that refreshes itself, so that its clock runs; None without a terminal."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(file=stream, highlight=False)
    # With FORCE_COLOR set, as on CI services, rich takes any stream for a terminal.
    if not (stream.isatty() and console.is_interactive):
        return None

    def draw() -> RenderableType:
        # Rich would query stdin, stdout and stderr, which in a rank are not the terminal.
        columns, lines = os.get_terminal_size(stream.fileno())
        console.size = columns or 80, lines or 24
        # If this process is killed, output of other processes starts on the empty line.
        return Group(_panel(run, min(console.width, 100)), "")

    # Redirect prints to above the panel, but not those that go to a file.
    out = sys.stdout is stream
    err = out and sys.stderr.isatty()
    live = Live(console=console, get_renderable=draw, redirect_stdout=out, redirect_stderr=err)
    live.start(refresh=True)
    # Keep the cursor visible: a rank that is killed could not restore it.
    console.show_cursor(True)
    return live


def _panel(run: _Run, width: int) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    now, elapsed = run.latest, run.elapsed
    color = {"training": "blue", "failed": "red"}.get(run.status, "green")
    bar = ProgressBar(now.iterations, now.iteration, complete_style=color, finished_style=color)
    *metrics, speed = run.metrics
    scalars = [(name, _number(now.values[name])) for name in sorted(now.values, key=_preference)]
    clock = "  ".join((_duration(elapsed), run.left(elapsed)))
    rest = [speed, ("time", clock), ("run folder", _shortest(run.started.run_dir))]
    if run.checkpoint is not None:
        rest.append(("checkpoint", os.path.relpath(run.checkpoint.path, run.started.run_dir)))
    return Panel(
        Group(
            Text("\n".join([run.heading, *run.preface])),
            Padding(bar if now.iterations else "", 0),
            _grid([a + b for a, b in zip(metrics, [*scalars, *[("", "")] * 5], strict=False)]),
            _grid(rest),
        ),
        title=Text(run.started.task),
        title_align="left",
        subtitle=run.status,
        subtitle_align="right",
        border_style=color,
        width=width,
    )


def _grid(rows: Sequence[tuple[str, ...]]) -> RenderableType:
    """Return a table of rows with a name and a value, or with two names and values."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="dim", width=10)
    grid.add_column(ratio=2, overflow="fold")
    if len(rows[0]) > 2:
        grid.add_column(style="dim", ratio=3, no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def _preference(name: str) -> int:
    return [bool(re.search(pattern, name, re.IGNORECASE)) for pattern in PREFERRED].index(True)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e9 else f"{value:.4g}"


def _speed(fps: tuple[float, ...]) -> str:
    each = " + ".join(f"{rank:,.0f}" for rank in fps)
    if len(fps) > 4:
        each = f"{min(fps):,.0f}..{max(fps):,.0f} a rank"
    return f"{sum(fps):,.0f} ({each})" if len(fps) > 1 else each or "-"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _shortest(path: str) -> str:
    return min(path, os.path.relpath(path), key=len)
