"""Text streams that outlive what they write to: a reader that goes away, a disk that is full."""

from __future__ import annotations

import contextlib
import io
import select
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO, cast

from rltrain.ranks.guarded import flush, open_missing
from rltrain.terminal import raw

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class LossyFile(io.FileIO):
    """Counts what cannot be written. A print in a library must not raise because a disk is full.

    It loses in silence what nobody reads any more, as with `| head`. `lost` counts the bytes
    that are missing since the last that was written.
    """

    def __init__(self, descriptor: int, closefd: bool = True) -> None:
        super().__init__(descriptor, "w", closefd=closefd)
        self.lost, self.reason = 0, ""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or leave it out."""
        view = memoryview(data)
        try:
            if self.lost:
                self._write(f"\nrltrain: {self.lost} bytes lost: {self.reason}\n".encode())
                self.lost = 0
            return self._write(view)
        except BrokenPipeError:
            pass
        except OSError as error:
            self.lost += view.nbytes
            self.reason = error.strerror or str(error)
        return view.nbytes

    def _write(self, data: ReadableBuffer) -> int:
        while (written := super().write(data)) is None:
            # Another process that shares it has made it non-blocking, and its reader is slow.
            select.select([], [self], [])
        return written


def as_text(file: LossyFile, like: TextIO | None = None) -> TextIO:
    """Return a stream that writes each line when it is complete, or as another one does."""
    buffer = io.BufferedWriter(file)
    if like is None:
        stream = io.TextIOWrapper(buffer, "utf-8", "replace", line_buffering=True)
    else:
        by_line = bool(like.line_buffering)
        stream = io.TextIOWrapper(buffer, like.encoding, like.errors, line_buffering=by_line)
    return cast(TextIO, stream)


def descriptor_of(stream: TextIO) -> int:
    """Return a stream's descriptor; -1 if it has none, as a notebook's stream."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return -1


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
        flush(sys.stdout, sys.stderr)
        sys.stdin, sys.stdout, sys.stderr = before


def _lasting(stream: TextIO | None, descriptor: int) -> TextIO:
    """Return a stream for a standard descriptor in place of Python's own, which may be none."""
    if stream is not None:
        if raw(stream) is not stream or descriptor_of(stream) != descriptor:
            return stream
        flush(stream)
    return as_text(LossyFile(descriptor, closefd=False), stream)
