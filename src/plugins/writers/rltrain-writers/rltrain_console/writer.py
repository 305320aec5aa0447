"""The console writer with a live view."""

from __future__ import annotations

from typing import TextIO

from rltrain.builtin.console import ConsoleWriter, RunState, View
from rltrain_console.live import LiveView, can_draw


class LiveConsoleWriter(ConsoleWriter):
    """Draws a live view on a terminal; elsewhere it prints the core's lines."""

    def view(self, run: RunState, stream: TextIO) -> View:
        """Return the live view, if it has the terminal for itself."""
        # Ranks that are shown print on the same terminal.
        if can_draw(stream) and not run.started.config.get("show_ranks"):
            return LiveView(run, stream)
        return super().view(run, stream)
