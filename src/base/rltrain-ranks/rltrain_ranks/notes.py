"""What the ranks of a node leave for their launcher while they run, where they report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rltrain_ranks.board import board_of

__all__ = ["Notes"]


@dataclass(frozen=True)
class Notes:
    """What the ranks of a node leave for their launcher: it reads them however its ranks ended."""

    folder: Path
    """Where ranks report."""

    def __post_init__(self) -> None:
        """Open the memory while the folder is there."""
        board_of(self.folder)

    def set_run_dir(self, path: Path) -> None:
        """Note the run folder. Each rank does; ranks that are started again may have a new one."""
        board_of(self.folder).run_dir = str(path)

    def run_dir(self) -> str:
        """Return the run folder; "" if the ranks failed before they had one."""
        return board_of(self.folder).run_dir

    @property
    def shown(self) -> Path:
        """A file with what ranks show to the user of this node, if their launcher has made it."""
        return self.folder / "shown"
