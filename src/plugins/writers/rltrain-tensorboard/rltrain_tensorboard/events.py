"""A file of TensorBoard's events that a full disk interrupts, and does not damage."""

from __future__ import annotations

import io
import os
import socket
import time
from collections import deque
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter


class EventFile:
    """Holds events until the disk has taken them."""

    def __init__(self, folder: Path, flush_interval: int) -> None:
        """Write nothing yet.

        Args:
            folder: is made when it is needed, and again if it is removed.
            flush_interval: the number of events that are written at a time.
        """
        # TensorBoard looks for "tfevents" in file names, and reads the files in order of time.
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        self._flush_interval = flush_interval
        self._file: io.FileIO | None = None
        self._written = 0
        self._held: deque[bytes] = deque()

    def add(self, event: Event) -> None:
        """Add an event, and write it if enough are held."""
        self._held.append(_record(event))
        # By default once per iteration: cheap, and if the rank is killed, no event is lost.
        if len(self._held) >= self._flush_interval:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._held:
            return
        file = self._opened()
        # TensorBoard reads no further than a half-written record: write over it.
        file.seek(self._written)
        file.truncate()
        while self._held:
            record, taken = self._held[0], 0
            while taken < len(record):
                taken += file.write(record[taken:]) or 0
            self._written += taken
            self._held.popleft()

    def close(self) -> None:
        """Write what is held, and close the file."""
        try:
            self.flush()
        finally:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> io.FileIO:
        if self._file is not None and os.fstat(self._file.fileno()).st_nlink > 0:
            return self._file
        self._close_file()  # It has been removed.
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file, self._written = io.FileIO(self._path, "x"), 0
        head = Event(wall_time=time.time(), file_version="brain.Event:2")
        self._held.appendleft(_record(head))
        return self._file


def _record(event: Event) -> bytes:
    """Return an event as TensorBoard's files have it."""
    buffer = io.BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()
