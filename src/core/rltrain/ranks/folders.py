"""Private folders of running processes, what killed ones have left of them, and which ranks share.

No other user can look into such a folder, or meet there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from multiprocessing.util import get_temp_dir
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.files.disk import try_to_write
from rltrain.ranks.world import World

_PREFIX = "rltrain-"

_OVER = ".over"  # Ends the name of a folder that is being removed: its lock may be gone.

_LOCK = ".owner"
"""A file that the owner of a folder holds locked. The kernel unlocks it when the owner ends. A
process ID could not tell: it is used again, and containers that share the folder have their own."""

_MULTIPROCESSING = ".multiprocessing"
"""A link to the folder that Python's multiprocessing has made for the owner."""

_LONGEST = 75
"""Longest path of a folder for temporary files, in bytes, that leaves room for sockets."""

_SHORT = ("/tmp", "/var/tmp", "/dev/shm", "/")
"""Where they are made otherwise."""

_shared: Path | None = None
"""The folder that a launcher made for the ranks of its node."""


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder that only this user can read, and remove it afterwards.

    If this process is killed, the next one that makes a folder removes it.

    Raises:
        UsageError: temporary files cannot be written.
    """
    owner, folder = os.getpid(), _made()
    try:
        with _held(folder / _LOCK):
            yield folder
    finally:
        if os.getpid() == owner:
            with contextlib.suppress(OSError):  # It was cleaned.
                shutil.rmtree(folder.rename(f"{folder}{_OVER}"), ignore_errors=True)
            remove_leftovers()


def _made() -> Path:
    """Make a private folder, where there is room for what is to be in it."""
    where = None
    try:
        where = tempfile.gettempdir()
        remove_leftovers()
        os.makedirs(where, exist_ok=True)  # It may have been cleaned with all in it.
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        raise UsageError(_unwritable(where, error)) from error
    if why := lacks_room(folder):
        shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(why)
    return folder


def lacks_room(folder: Path) -> str:
    """Return why ranks cannot write in a private folder, and what to do; "" if they can."""
    try:
        try_to_write(folder)
    except FileNotFoundError:
        return ""  # It was cleaned: ranks go on without it.
    except OSError as error:
        return _unwritable(str(folder.parent), error)
    return ""


def _unwritable(where: str | None, error: OSError) -> str:
    return (
        f"TMPDIR: temporary files cannot be written{f' in {where}' if where else ''} "
        f"({error.strerror}). Free some space there, or name another folder: TMPDIR=DIR."
    )


@contextlib.contextmanager
def with_temporary_files(folder: Path) -> Iterator[None]:
    """Let this process' temporary files be made in its private folder.

    Only what multiprocessing uses until this process ends stays where it is.
    """
    link = folder / _MULTIPROCESSING
    of_multiprocessing = _folder_of_multiprocessing()
    os.makedirs(of_multiprocessing, mode=0o700, exist_ok=True)  # It may have been cleaned.
    link.symlink_to(of_multiprocessing)
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
        # While the folder is held: what the link names is not left over.
        link.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # multiprocessing removes it at exit, and it must exist.
            os.makedirs(of_multiprocessing, exist_ok=True)


def _folder_of_multiprocessing() -> str:
    """Return the folder that Python's multiprocessing makes for this process' sockets.

    Linux takes 107 bytes for a socket's path: where TMPDIR is too long, the folder is elsewhere.
    """
    before = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST:
        tempfile.tempdir = next(each for each in _SHORT if os.access(each, os.W_OK))
    try:
        return get_temp_dir()
    finally:
        tempfile.tempdir = before


def remove_leftovers() -> None:
    """Remove the private folders of this user's processes that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if _is_ours(folder):
                over = folder if folder.suffix == _OVER else _taken(folder)
                shutil.rmtree(over, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Return whether this is a folder of this user, and not a link to one."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _taken(folder: Path) -> Path:
    """Return a folder, renamed, whose owner has ended; raise if it is held."""
    lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # Raises if the owner lives.
        link = folder / _MULTIPROCESSING
        if link.is_symlink():
            of_multiprocessing = link.readlink()
            if of_multiprocessing.name.startswith("pymp-") and _is_ours(of_multiprocessing):
                shutil.rmtree(of_multiprocessing, ignore_errors=True)
        return folder.rename(f"{folder}{_OVER}")
    finally:
        os.close(lock)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a file locked that appears with its lock."""
    new = path.with_suffix(".new")
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with contextlib.suppress(OSError):  # Some file systems have no locks.
            fcntl.flock(lock, fcntl.LOCK_EX)
            new.rename(path)
        yield
    finally:
        os.close(lock)


def use_folder(folder: Path | None) -> Path | None:
    """Set the folder that a launcher made for the ranks of its node; return the one before."""
    global _shared
    before, _shared = _shared, folder
    return before


def shared_folder(world: World) -> Path | None:
    """Return a folder of all ranks, for the sockets and stores by which they meet.

    A port on the loopback interface is open to every user of the machine; this folder is not.

    Args:
        world: this rank's place.

    Returns:
        The folder, until the ranks end. None if they are on several nodes, or something else than
        rltrain has started them: then they meet at MASTER_ADDR and MASTER_PORT.
    """
    return _shared if world.num_nodes == 1 else None
