"""The console writer."""

from __future__ import annotations

from typing import TextIO

from rltrain.builtin.console.lines import Lines
from rltrain.builtin.console.live import LiveView, can_draw
from rltrain.builtin.console.state import RunState
from rltrain.hookspecs import hookimpl
from rltrain.records import Record, RunEnded, RunStarted

__all__ = ["ConsoleWriter"]


class ConsoleWriter:
    """Shows a run's progress to the user who started it.

    Args:
        stream: where to write; by default the terminal's stdout as it was before the ranks
            redirected their output to log files.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._run: RunState | None = None
        self._view: LiveView | Lines | None = None

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Show what the record changes."""
        if self._stream is None:
            from rltrain.launch import console_stream

            self._stream = console_stream()
        if isinstance(record, RunStarted):
            self._run = RunState(record)
            # Ranks that are shown print on the same terminal.
            is_live = can_draw(self._stream) and not record.config.get("show_ranks")
            self._view = (LiveView if is_live else Lines)(self._run, self._stream)
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
