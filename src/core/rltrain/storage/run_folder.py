"""Rank-0 I/O: the run folder, its manifest, and checkpoints that are complete or absent."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltrain.config.checks import flag
from rltrain.errors import UsageError
from rltrain.files.disk import PARTIAL, NotWritten, disk_errors, try_to_write, whole
from rltrain.files.reading import real
from rltrain.terminal import one_line

LONGEST_NAME = 255 - len("2026-01-31_23-59-59__99")
"""Bytes of a run's name, which stands between the time and perhaps a number."""


class RunFolder:
    """The folder of one run. Rank 0 creates it; every rank knows its path.

    It holds `manifest.json`, `config.yaml`, `metrics.jsonl`, `checkpoints/` with their index
    `checkpoints.json`, `logs/rank_N.log`, and what the writers add.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def manifest(self) -> Path:
        """The manifest."""
        return self.path / "manifest.json"

    def log_file(self, rank: int) -> Path:
        """Path of a rank's log. Creates its folder: a node may not share the disk of rank 0."""
        folder = self.path / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"rank_{rank}.log"

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write `manifest.json`. Rank 0 only."""
        text = json.dumps(manifest, indent=2, default=str) + "\n"
        self.write_atomically("manifest.json", lambda path: path.write_text(text))

    def write_atomically(self, name: str, write: Callable[[Path], Any]) -> Path:
        """Write a file in the run folder so that it is complete or absent. Rank 0 only.

        Args:
            name: path relative to the run folder.
            write: writes the whole file to the path that it is given.

        Raises:
            NotWritten: the disk does not take it, or the run folder was removed.
        """
        target = self.path / name
        with disk_errors(target.parent):
            if not self.path.is_dir():
                raise NotWritten(errno.ENOENT, "the run folder is gone")
            # The inner one while the half-written file fills the disk, so that this can be seen.
            with whole(target) as partial, disk_errors(partial.parent):
                write(partial)
                _sync(partial)
            _sync(target.parent)
        return target

    def remove_partial(self) -> None:
        """Remove what rank 0 was writing when it was killed. No rank may run."""
        for path in list(self.path.rglob(f"{PARTIAL}*")):
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk: power may fail."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_run_folder(log_root: str, library: str, task: str, run_name: str | None) -> RunFolder:
    """Create a new folder: `<log_root>/<library>/<task>/<time>[_<run_name>]`."""
    name = time.strftime("%Y-%m-%d_%H-%M-%S") + (f"_{run_name}" if run_name else "")
    parent = task_folder(log_root, library, task)
    for suffix in ("", *(f"_{number}" for number in range(2, 100))):
        try:
            (parent / (name + suffix)).mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(_unwritable("log_root", log_root, error)) from error
        return RunFolder(parent / (name + suffix))
    raise UsageError(f"--log-root {log_root}: 99 runs named {name} exist; give --run-name.")


def task_folder(log_root: str, library: str, task: str) -> Path:
    """Return the folder of a task's runs: `<log_root>/<library>/<task>`."""
    label = re.sub(r"[^\w.-]+", "_", task)
    return real(log_root) / library / (label if label.strip(".") else f"_{label}")


def check_writable(option: str, folder: str, whose: str = "") -> None:
    """Check that folders and files can be created in the folder that an option names.

    Nothing is left behind. Whose option it is may be said, if the user may have given none.

    Raises:
        UsageError: they cannot.
    """
    try:
        if one_line(folder) != folder:
            raise ValueError("it has control characters")
        path = Path(folder).expanduser().resolve()
        existing = next(folder for folder in (path, *path.parents) if folder.exists())
        if not existing.is_dir():
            raise NotADirectoryError(f"{existing} is not a folder")
        try_to_write(existing)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: of ~user, no user's.
        raise UsageError(_unwritable(option, one_line(folder) + whose, error)) from error


def _unwritable(option: str, folder: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"{flag(option)} {folder}: cannot be written ({reason}). Name a folder that can."
