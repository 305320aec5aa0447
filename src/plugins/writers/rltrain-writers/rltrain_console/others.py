"""Lines for the user, of whichever process of the node, while a live view draws."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from rltrain.launch import view_files


class LinesOfOthers:
    """Receives the lines for the user while a live view is on the terminal.

    Args:
        show: shows one line.
    """

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show, self._files = show, view_files()
        self._read = 0
        if self._files is not None:
            drawing, lines = self._files
            with contextlib.suppress(OSError):  # The disk is full: lines are printed.
                lines.unlink(missing_ok=True)
                drawing.touch()

    def look(self) -> None:
        """Show what is new. Call it now and then."""
        if self._files is None:
            return
        with contextlib.suppress(OSError):
            with self._files[1].open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._show(line)

    def close(self) -> None:
        """Show what is new for the last time: from now on, lines are printed."""
        if self._files is not None:
            with contextlib.suppress(OSError):
                self._files[0].unlink(missing_ok=True)
        self.look()
