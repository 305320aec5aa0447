"""Disks that take no files: full, over a quota, read-only, lost; or the folder was removed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["NotWritten", "disk_errors", "try_to_write"]

_OF_A_DISK = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE),
        *(errno.EACCES, errno.EPERM, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT),
    }
)

_PROBE = 1 << 20
"""Bytes. A disk with less room than this is full."""


class NotWritten(OSError):
    """The disk did not take a file. It may do so later."""


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Tell a disk that takes no files from a mistake in what writes them.

    Libraries raise errors of their own when a disk is full: torch.save a RuntimeError. So after an
    error, it is tried whether the disk takes a file.

    Args:
        folder: where the files are written.

    Raises:
        NotWritten: instead of the error, if the disk is the cause.
    """
    try:
        yield
    except NotWritten:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_A_DISK:
            raise NotWritten(error.errno, error.strerror) from error
        try:
            try_to_write(folder)
        except OSError as cause:
            raise NotWritten(cause.errno, cause.strerror) from error
        raise


def try_to_write(folder: Path) -> None:
    """Write a file in a folder, and remove it.

    Raises:
        OSError: the disk did not take it.
    """
    probe = folder / f".rltrain-{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(_PROBE))
            os.fsync(file.fileno())
    finally:
        probe.unlink(missing_ok=True)
