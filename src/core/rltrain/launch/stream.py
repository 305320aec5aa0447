"""A text stream that outlives a full disk: what cannot be written is counted, and left out."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["LossyFile", "as_text"]


class LossyFile(io.FileIO):
    """Writes to a descriptor. A print in a library must not raise because a disk is full.

    Attributes:
        lost: the number of bytes that are missing since the last one that was written.
        reason: why.
    """

    def __init__(self, descriptor: int, closefd: bool = True) -> None:
        super().__init__(descriptor, "w", closefd=closefd)
        self.lost, self.reason = 0, ""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or leave it out."""
        view = memoryview(data)
        try:
            if self.lost:
                super().write(f"\nrltrain: {self.lost} bytes lost: {self.reason}\n".encode())
                self.lost = 0
            return super().write(view) or 0
        except BrokenPipeError:
            raise  # Nobody reads what a run prints, as with `| head`: it ends.
        except OSError as error:
            self.lost += view.nbytes
            self.reason = error.strerror or str(error)
            return view.nbytes


def as_text(file: LossyFile) -> TextIO:
    """Return a stream that writes each line when it is complete."""
    buffer = io.BufferedWriter(file)
    stream = io.TextIOWrapper(buffer, encoding="utf-8", errors="replace", line_buffering=True)
    return cast(TextIO, stream)
