"""Text streams that outlive what they write to: a reader that goes away, a disk that is full."""

from __future__ import annotations

import contextlib
import io
import select
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO, cast

from rltrain_files.terminal import raw
from rltrain_ranks.machine.descriptors import open_missing

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["LossyFile", "as_text", "lasting_output"]


class _UnreadFile(io.FileIO):
    """Writes to a descriptor; in silence, once nobody reads it any more, as with `| head`."""

    def __init__(self, descriptor: int, closefd: bool = True) -> None:
        super().__init__(descriptor, "w", closefd=closefd)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or leave it out."""
        try:
            while (written := super().write(data)) is None:
                # Another process that shares it has made it non-blocking, and its reader is slow.
                select.select([], [self], [])
            return written
        except BrokenPipeError:
            return memoryview(data).nbytes


class LossyFile(_UnreadFile):
    """Counts what cannot be written. A print in a library must not raise because a disk is full.

    Attributes:
        lost: the number of bytes that are missing since the last one that was written.
        reason: why.
    """

    def __init__(self, descriptor: int, closefd: bool = True) -> None:
        super().__init__(descriptor, closefd)
        self.lost, self.reason = 0, ""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or leave it out."""
        view = memoryview(data)
        try:
            if self.lost:
                super().write(f"\nrltrain: {self.lost} bytes lost: {self.reason}\n".encode())
                self.lost = 0
            return super().write(view)
        except OSError as error:
            self.lost += view.nbytes
            self.reason = error.strerror or str(error)
            return view.nbytes


def as_text(file: LossyFile) -> TextIO:
    """Return a stream that writes each line when it is complete."""
    buffer = io.BufferedWriter(file)
    stream = io.TextIOWrapper(buffer, encoding="utf-8", errors="replace", line_buffering=True)
    return cast(TextIO, stream)


@contextlib.contextmanager
def lasting_output() -> Iterator[Callable[[], str]]:
    """Let what this process prints in the context be lost where nobody reads it, or a disk is full.

    It gives a function that says why something of stdout is missing that a disk has not taken.
    """
    open_missing()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - it closes nothing.
    sys.stdout, sys.stderr = (_lasting(stream, at) for at, stream in enumerate(before[1:], start=1))
    printed = sys.stdout

    def missing() -> str:
        with contextlib.suppress(AttributeError):  # Not one of ours.
            return str(printed.buffer.raw.reason)  # type: ignore[attr-defined]
        return ""

    try:
        yield missing
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def _lasting(stream: TextIO | None, descriptor: int) -> TextIO:
    """Return a stream for a standard descriptor in place of Python's own, which may be none."""
    if stream is None:
        return as_text(LossyFile(descriptor, closefd=False))
    try:
        is_own = raw(stream) is stream and stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):
        is_own = False  # For example a notebook's stream.
    if not is_own:
        return stream
    with contextlib.suppress(OSError):
        stream.flush()
    buffer = io.BufferedWriter(LossyFile(descriptor, closefd=False))
    made = io.TextIOWrapper(
        buffer, stream.encoding, stream.errors, line_buffering=bool(stream.line_buffering)
    )
    return cast(TextIO, made)
