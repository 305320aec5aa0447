"""The console writer."""

from __future__ import annotations

from typing import Protocol, TextIO

from rltrain.builtin.console.lines import Lines
from rltrain.builtin.console.state import RunState
from rltrain.hookspecs import hookimpl
from rltrain.records import Record, RunEnded, RunStarted

__all__ = ["ConsoleWriter", "View"]


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
