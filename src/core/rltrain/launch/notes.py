"""What the ranks of a node leave for their launcher while they run, where they report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Notes"]


@dataclass(frozen=True)
class Notes:
    """What the ranks of a node leave for their launcher: it reads them however its ranks ended."""

    folder: Path
    """Where ranks report."""

    def set_run_dir(self, path: Path) -> None:
        """Note the run folder. Each rank does; ranks that are started again may have a new one."""
        new = self.folder / f"run-{os.getpid()}"
        new.symlink_to(path)
        os.replace(new, self._run)

    def run_dir(self) -> str:
        """Return the run folder; "" if the ranks failed before they had one."""
        try:
            return os.readlink(self._run)
        except FileNotFoundError:
            return ""

    @property
    def shown(self) -> Path:
        """A file with what ranks show to the user of this node, if their launcher has made it."""
        return self.folder / "shown"

    @property
    def _run(self) -> Path:
        return self.folder / "run"
