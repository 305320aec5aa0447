"""Reading files that someone else may have written: plain files only, and no more than fits."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path


class Unreadable(OSError):
    """A file is there, but is not one to read: `strerror` says why, in a few words."""


@contextlib.contextmanager
def opened(path: Path, limit: int, within: Path | None = None) -> Iterator[io.BufferedReader]:
    """Open a plain file of at most `limit` bytes, which is in a folder, `within`, links followed.

    Pipes and devices, which could block or never end, are not opened.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable(errno.EINVAL, "it is no plain file", str(path))
    if within is not None and not real(path).is_relative_to(real(within)):
        raise Unreadable(errno.EXDEV, f"it is a link out of {within}", str(path))
    if status.st_size > limit:
        raise Unreadable(errno.EFBIG, f"it is larger than {limit:,} bytes", str(path))
    with path.open("rb") as file:
        yield file


def read_bytes(path: Path, limit: int, within: Path | None = None) -> bytes:
    """Return the bytes of a plain file; see `opened`."""
    with opened(path, limit, within) as file:
        return file.read()


def read_text(path: Path, limit: int, within: Path | None = None) -> str:
    """Return the text of a plain file in UTF-8; see `opened`."""
    try:
        return read_bytes(path, limit, within).decode()
    except UnicodeDecodeError as error:
        raise Unreadable(errno.EILSEQ, "it is no text", str(path)) from error


def digest(path: Path, limit: int = sys.maxsize) -> str:
    """Return the SHA-256 of a plain file; see `opened`."""
    with opened(path, limit) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def real(path: str | Path) -> Path:
    """Return a path without links and `~`; as it is, where they lead nowhere."""
    try:
        return Path(os.path.realpath(os.path.expanduser(path)))
    except ValueError:  # It has what no path has.
        return Path(path)


def no_file(path: str | Path, absent: str = "there is no such file") -> str:
    """Say why a path is no file to read: something else is there, or nothing."""
    there = "is a folder" if os.path.isdir(path) else "is no plain file"
    return there if os.path.exists(path) else absent


def changed_at(path: Path) -> int:
    """Return when a file was changed, in nanoseconds; 0 if that cannot be known."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
