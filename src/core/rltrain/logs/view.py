"""Lines for the user while a live view draws on the terminal, where they would be overwritten.

The view, in rank 0, shows them above itself. They reach it through a file in the folder where the
ranks of its node report: a line can come from the launcher, or from another rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

__all__ = ["LinesOfOthers", "hand_over", "look_in"]

_folder: Path | None = None


def look_in(folder: Path | None) -> Path | None:
    """Set the folder where the ranks of this node report; return the one before."""
    global _folder
    before, _folder = _folder, folder
    return before


def hand_over(line: str, folder: Path | None = None) -> bool:
    """Give a line to the live view.

    Args:
        line: for the user.
        folder: where the ranks of this node report, for a process that is none of them.

    Returns:
        False if there is no view: print the line.
    """
    folder = folder or _folder
    if folder is None or not _mark(folder).exists():
        return False
    try:
        with _lines(folder).open("a") as file:
            file.write(line + "\n")
    except OSError:
        return False
    return True


class LinesOfOthers:
    """Receives the lines for the user while a live view is on the terminal.

    Args:
        show: shows one line.
    """

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show, self._folder = show, _folder
        self._read = 0
        if self._folder is not None:
            with contextlib.suppress(OSError):  # The disk is full: lines are printed.
                _lines(self._folder).unlink(missing_ok=True)
                _mark(self._folder).touch()

    def look(self) -> None:
        """Show what is new. Call it now and then."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            with _lines(self._folder).open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._show(line)

    def close(self) -> None:
        """Show what is new for the last time: from now on, lines are printed."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                _mark(self._folder).unlink(missing_ok=True)
        self.look()


def _mark(folder: Path) -> Path:
    return folder / "view"


def _lines(folder: Path) -> Path:
    return folder / "view.lines"
