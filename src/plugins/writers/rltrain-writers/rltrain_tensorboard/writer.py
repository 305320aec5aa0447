"""The TensorBoard writer: one event file per run, written without torch or TensorFlow."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from rltrain.hookspecs import hookimpl
from rltrain.records import Record, RunStarted, Scalars
from rltrain_tensorboard.plugin import TensorBoardOptions
from rltrain_tracking import metrics_of

FOLDER = "tensorboard"
"""The writer's folder in the run folder."""


class TensorBoardWriter:
    """Writes every scalar with the frames of all ranks as its step.

    The curves of runs with different numbers of ranks can then be compared directly. Events are
    written to a plain file in TensorBoard's record format, because TensorBoard's `EventFileWriter`
    imports TensorFlow if it is installed, and starts a thread.
    """

    def __init__(self, options: TensorBoardOptions) -> None:
        self._flush_interval = options.flush
        self._file: RecordWriter | None = None
        self._waiting = 0

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Open the file when the run starts, then write the scalars of each iteration."""
        if isinstance(record, RunStarted):
            self._open(Path(record.run_dir) / FOLDER, record.frames)
        elif isinstance(record, Scalars):
            values = metrics_of(record).items()
            summary = [Summary.Value(tag=name, simple_value=value) for name, value in values]
            self._write(step=record.frames, summary=Summary(value=summary))
            self._waiting += 1
            # By default once per iteration: cheap, and if the rank is killed, no event is lost.
            if self._file is not None and self._waiting >= self._flush_interval:
                self._waiting = 0
                self._file.flush()

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """Close the event file."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _open(self, folder: Path, frames: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        again = any(folder.iterdir())
        # TensorBoard looks for "tfevents" in file names, and reads the files in order of time.
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._file = RecordWriter((folder / name).open("wb"))
        self._write(file_version="brain.Event:2")
        if again:
            # TensorBoard forgets what ranks that failed have written after the checkpoint.
            self._write(step=frames + 1, session_log=SessionLog(status=SessionLog.START))

    def _write(self, **event: Any) -> None:
        if self._file is not None:
            self._file.write(Event(wall_time=time.time(), **event).SerializeToString())
