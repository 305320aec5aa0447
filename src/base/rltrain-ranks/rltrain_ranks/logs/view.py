"""Lines for the user while a live view draws on the terminal, where they would be overwritten.

The view, in rank 0, shows them above itself. They reach it through a file in the folder where the
ranks of its node report: a line can come from the launcher, or from another rank.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["hand_over", "look_in", "view_files"]

_folder: Path | None = None


def look_in(folder: Path | None) -> Path | None:
    """Set the folder where the ranks of this node report; return the one before."""
    global _folder
    before, _folder = _folder, folder
    return before


def view_files(folder: Path | None = None) -> tuple[Path, Path] | None:
    """Return the file that is there while a view draws, and the one with lines for it.

    Args:
        folder: where the ranks of this node report, for a process that is none of them.

    Returns:
        None in a process that is no rank.
    """
    folder = folder or _folder
    return None if folder is None else (folder / "view", folder / "view.lines")


def hand_over(line: str, folder: Path | None = None) -> bool:
    """Give a line to the live view.

    Args:
        line: for the user.
        folder: where the ranks of this node report, for a process that is none of them.

    Returns:
        False if there is no view: print the line.
    """
    files = view_files(folder)
    if files is None or not files[0].exists():
        return False
    try:
        with files[1].open("a") as file:
            file.write(line + "\n")
    except OSError:
        return False
    return True
