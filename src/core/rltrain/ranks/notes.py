"""Files that the ranks of a node and their launcher leave for each other, however they end."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_harmless = partial(contextlib.suppress, OSError)
"""Where the folder may have been removed while the run trains."""


@dataclass(frozen=True)
class Notes:
    """What the ranks of a node leave for their launcher: it reads them however its ranks ended."""

    folder: Path
    """Where ranks report."""

    @property
    def is_training(self) -> bool:
        """Whether ranks will soon end an iteration."""
        return (self.folder / "training").exists()

    def set_training(self) -> None:
        """Note that training starts."""
        with _harmless():
            (self.folder / "training").touch()

    @property
    def asked(self) -> tuple[int, float]:
        """The signal because of which ranks are asked to end, 0 for none, and when it came."""
        try:
            path = self.folder / "asked"
            return int(path.read_text()), path.stat().st_mtime
        except (OSError, ValueError):
            return 0, 0.0

    def ask(self, number: int) -> None:
        """Ask ranks to end because of a signal."""
        (self.folder / "asked").write_text(str(number))

    def set_done(self, rank: int) -> None:
        """Note that a rank of this node has done its work."""
        with _harmless():
            (self.folder / f"done_{rank}").touch()

    def done(self) -> set[int]:
        """Return the ranks that have."""
        return {int(path.name.removeprefix("done_")) for path in self.folder.glob("done_*")}

    def set_run_dir(self, path: Path) -> None:
        """Note the run folder. Each rank does; ranks that are started again may have a new one."""
        with _harmless():
            (self.folder / "run_dir").write_text(str(path))

    def run_dir(self) -> str:
        """Return the run folder; "" if the ranks failed before they had one."""
        try:
            return (self.folder / "run_dir").read_text()
        except OSError:
            return ""

    @property
    def shown(self) -> Path:
        """A file with what ranks show to the user of this node, if their launcher has made it."""
        return self.folder / "shown"
