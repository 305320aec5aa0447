"""The live view: a panel at the bottom of the terminal, and lines that stay above it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TextIO

from rltrain.builtin.console import RunState, summary
from rltrain.terminal import plain, plain_stream, raw
from rltrain_console.others import LinesOfOthers
from rltrain_console.panel import LOWEST, WIDEST, panel
from rltrain_console.plain import Plain

if TYPE_CHECKING:
    from rich.console import RenderableType

_INTERVAL = 0.5
"""Seconds between two drawings."""


def can_draw(stream: TextIO) -> bool:
    """Return whether a stream is a terminal on which the cursor can be moved."""
    from rich.console import Console

    # With FORCE_COLOR set, as on CI services, rich takes any stream for a terminal.
    return stream.isatty() and Console(file=stream).is_interactive


class LiveView:
    """Draws the run again and again, so that its clock runs.

    It is rich's `Live`, but for three things: it clears the screen when the terminal's size has
    changed, because the terminal has wrapped the old lines; a low terminal gets a low panel; and it
    does not hide the cursor, which a rank that is killed could not restore.
    """

    def __init__(self, run: RunState, stream: TextIO) -> None:
        from rich.console import Console

        self._run, self._stream = run, plain_stream(stream)
        self._drawing = raw(stream)
        self._console = Console(file=self._drawing, highlight=False)
        self._size: tuple[int, int] | None = None
        self._height = self._level = 0
        self._above: list[str] = []
        self._others = LinesOfOthers(self._above.append)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rltrain-console", daemon=True)

    def start(self) -> None:
        """Draw from now on."""
        self._draw()
        self._thread.start()

    def update(self) -> None:
        """Do nothing: what is new is in the next drawing."""

    def stop(self) -> None:
        """Leave the last state on the terminal, and say below it what to do next."""
        self._over.set()
        self._thread.join()
        self._others.close()
        self._draw()
        for line in summary(self._run):
            print(line, file=self._stream)
        self._stream.flush()

    def _follow(self) -> None:
        while not self._over.wait(_INTERVAL):
            self._others.look()
            self._draw()

    def _draw(self) -> None:
        """Draw in one write, so that nothing flickers. The cursor is then below the panel."""
        size = _size(self._stream)
        start = f"\r\x1b[{self._height}A" if self._height else ""
        if self._size not in (size, None):
            start, self._level = "\x1b[H\x1b[2J", 0
        self._size, self._console.size = size, size
        lines = self._panel(size[0]) if self._over.is_set() else self._fitting(*size)
        drawn = "".join(f"\x1b[2K{line}\n" for line in [*map(plain, self._above), *lines])
        self._above.clear()
        self._height = len(lines)
        self._drawing.write(f"{start}{drawn}\x1b[J")
        self._drawing.flush()

    def _panel(self, columns: int, level: int = 0) -> list[str]:
        return self._render(panel(self._run, min(columns, WIDEST), level))

    def _fitting(self, columns: int, rows: int) -> list[str]:
        """Return the highest panel that has room above the cursor."""
        lines = self._panel(columns, self._level)
        while len(lines) >= rows and self._level < LOWEST:
            self._level += 1
            lines = self._panel(columns, self._level)
        return lines

    def _render(self, renderable: RenderableType) -> list[str]:
        with self._console.capture() as capture:
            self._console.print(Plain(renderable))
        return capture.get().splitlines()


def _size(stream: TextIO) -> tuple[int, int]:
    """Return a terminal's columns and lines."""
    # Rich would query stdin, stdout and stderr, which in a rank are not the terminal.
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except OSError:  # It is gone.
        columns = lines = 0
    return columns or 80, lines or 24
