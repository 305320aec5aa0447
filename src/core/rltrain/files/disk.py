"""Files that are complete or absent; and disks that take none: full, over a quota, lost."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_OF_CODE = (None, errno.ENOENT, errno.EBADF, errno.EFAULT, errno.EINVAL, errno.EPIPE)
"""Of mistakes in what writes. All others are a disk's, a folder's, or of too many open files."""
_PROBE = 1 << 20
"""Bytes. A disk with less room than this is full."""

PARTIAL = ".partial-"
"""How the names of files and folders begin that are not complete yet."""


class NotWritten(OSError):
    """The disk did not take a file."""


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give another path to write a file to, so that it is complete or absent at its own.

    The name is the same, in a folder that is removed: some libraries choose the format by the
    suffix, and torch stores the file's name inside the file.
    """
    scratch = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        yield scratch / path.name
        os.replace(scratch / path.name, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Distinguish a disk that takes no files from a mistake in what writes them.

    Libraries raise errors of their own when a disk is full: torch.save a RuntimeError. So after an
    error, a file is written in the folder to see whether the disk takes it.
    """
    try:
        yield
    except NotWritten:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in _OF_CODE:
            raise NotWritten(error.errno, error.strerror) from error
        try:
            try_to_write(folder)
        except OSError as cause:
            raise NotWritten(cause.errno, cause.strerror) from error
        raise


def try_to_write(folder: Path) -> None:
    """Write a file in a folder, and remove it."""
    probe = folder / f".rltrain-{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(_PROBE))
            os.fsync(file.fileno())
    finally:
        probe.unlink(missing_ok=True)
