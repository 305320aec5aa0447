"""The live view: a panel at the bottom of the terminal, and lines that stay above it."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TextIO

from rltrain.builtin.console import ConsoleWriter, RunState, View, summary
from rltrain.launch import view_file
from rltrain.terminal import plain, plain_stream, raw

_INTERVAL = 0.5
"""Seconds between two renderings."""


class LiveConsoleWriter(ConsoleWriter):
    """Renders a live view on a terminal; elsewhere it prints the core's lines."""

    def view(self, run: RunState, stream: TextIO) -> View:
        """Return the live view, if it has the terminal for itself."""
        from rich.console import Console

        # With FORCE_COLOR set, as on CI services, rich takes any stream for a terminal.
        moves_cursor = stream.isatty() and Console(file=stream).is_interactive
        # Ranks that are shown print on the same terminal.
        if moves_cursor and not run.started.config.get("show_ranks"):
            return LiveView(run, stream)
        return super().view(run, stream)


class LiveView(View):
    """Renders the run again and again, so that its clock runs.

    It is rich's `Live`, but for three things: it clears the screen when the terminal's size has
    changed, because the terminal has wrapped the old lines; a low terminal gets one line; and it
    does not hide the cursor, which a rank that is killed could not restore.
    """

    def __init__(self, run: RunState, stream: TextIO) -> None:
        from rich.console import Console

        self._run, self._stream = run, plain_stream(stream)
        self._terminal = raw(stream)
        self._console = Console(file=self._terminal, highlight=False)
        self._size: tuple[int, int] | None = None
        self._height = self._read = 0
        self._lines = view_file()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rltrain-console", daemon=True)

    def start(self) -> None:
        """Render from now on."""
        if self._lines is not None:
            with contextlib.suppress(OSError):  # The disk is full: lines are printed.
                self._lines.touch()
        self._render()
        self._thread.start()

    def update(self) -> None:
        """Do nothing: what is new is in the next rendering."""

    def stop(self) -> None:
        """Leave the last state on the terminal, and say below it what to do next."""
        self._over.set()
        self._thread.join()
        self._render()
        if self._lines is not None:
            self._lines.unlink(missing_ok=True)
        for line in summary(self._run):
            print(line, file=self._stream)
        self._stream.flush()

    def _follow(self) -> None:
        while not self._over.wait(_INTERVAL):
            self._render()

    def _render(self) -> None:
        """Render in one write, so that nothing flickers. The cursor is then below the panel."""
        from rltrain_console.panel import line, panel

        # Rich would query stdin, stdout and stderr, which in a rank are not the terminal.
        columns, rows = size = _size(self._stream)
        start = f"\r\x1b[{self._height}A" if self._height else ""
        if self._size not in (size, None):
            start = "\x1b[H\x1b[2J"
        self._size, self._console.size = size, size
        with self._console.capture() as whole:
            self._console.print(panel(self._run, columns))
        shown = whole.get().splitlines()
        if len(shown) >= rows and not self._over.is_set():
            with self._console.capture() as low:
                self._console.print(line(self._run))
            shown = low.get().splitlines()
        text = "".join(f"\x1b[2K{each}\n" for each in [*map(plain, self._above()), *shown])
        self._height = len(shown)
        self._terminal.write(f"{start}{text}\x1b[J")
        self._terminal.flush()

    def _above(self) -> list[str]:
        """Return new lines for the user, of any process of the node; see `view_file`."""
        new = b""
        if self._lines is not None:
            with contextlib.suppress(OSError), self._lines.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        self._read += len(new)
        return new.decode(errors="replace").splitlines()


def _size(stream: TextIO) -> tuple[int, int]:
    """Return a terminal's columns and lines."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except OSError:  # It is gone.
        columns = lines = 0
    return columns or 80, lines or 24
