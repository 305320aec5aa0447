"""Private folders of running processes, and what ranks and their launcher leave in them.

No other user can look into such a folder, or meet there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.ranks.world import World

_PREFIX, _SUFFIX = "rltrain-", ".private"

_shared: Path | None = None
"""The folder that a launcher made for the ranks of its node."""


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder that only this user can read, and remove it afterwards.

    It is locked meanwhile, which systemd-tmpfiles respects, too. The kernel unlocks it when this
    process ends. If it is killed, the next one that makes a folder removes it.

    Raises:
        UsageError: temporary files cannot be written.
    """
    owner, new = os.getpid(), _made()
    lock = os.open(new, os.O_RDONLY)
    with contextlib.suppress(OSError):  # Some file systems have no locks.
        fcntl.flock(lock, fcntl.LOCK_EX)
    # Under this name it would be a leftover without the lock.
    folder = new.rename(new.with_name(new.name.removeprefix(".")))
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)
            remove_leftovers()
        os.close(lock)


def _made() -> Path:
    """Make a private folder."""
    try:
        remove_leftovers()
        os.makedirs(
            tempfile.gettempdir(), exist_ok=True
        )  # It may have been cleaned with all in it.
        return Path(tempfile.mkdtemp(_SUFFIX, f".{_PREFIX}"))
    except OSError as error:
        raise UsageError(
            f"TMPDIR: temporary files cannot be written ({error}). Free some space there, or name "
            "another folder: TMPDIR=DIR."
        ) from error


def remove_leftovers() -> None:
    """Remove the private folders of this user's processes that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):  # It is a link, another user's, or its owner lives.
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def use_folder(folder: Path | None) -> None:
    """Set the folder that a launcher made for the ranks of its node."""
    global _shared
    _shared = folder


def shared_folder(world: World) -> Path | None:
    """Return a folder of all ranks, for the sockets and stores by which they meet.

    A port on the loopback interface is open to every user of the machine; this folder is not.

    Returns:
        The folder, until the ranks end. None if they are on several nodes, or something else than
        rltrain has started them: then they meet at MASTER_ADDR and MASTER_PORT.
    """
    return _shared if world.num_nodes == 1 else None


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
