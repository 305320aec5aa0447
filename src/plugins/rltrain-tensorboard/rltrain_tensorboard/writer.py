"""The TensorBoard writer: one event file per run, written without torch or TensorFlow."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.record_writer import RecordWriter

from rltrain.hookspecs import hookimpl
from rltrain.records import Record, RunStarted, Scalars
from rltrain_tensorboard.options import TensorBoardOptions

__all__ = ["FOLDER", "TensorBoardWriter", "scalars"]

FOLDER = "tensorboard"
"""The writer's folder in the run folder."""


class TensorBoardWriter:
    """Writes every scalar with the frames of all ranks as its step.

    The curves of runs with different numbers of ranks can then be compared directly. Events are
    written to a plain file in TensorBoard's record format, because TensorBoard's `EventFileWriter`
    imports TensorFlow if it is installed, and starts a thread.
    """

    def __init__(self, options: TensorBoardOptions) -> None:
        self._flush = options.flush
        self._unflushed = 0
        self._events: RecordWriter | None = None

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Write the run's overview when it starts, then the scalars of each iteration."""
        if isinstance(record, RunStarted):
            self._open(Path(record.run_dir) / FOLDER)
            self._write([_text("run", _overview(record))], step=0)
        elif isinstance(record, Scalars):
            values = scalars(record).items()
            self._write(
                [Summary.Value(tag=name, simple_value=value) for name, value in values],
                step=record.frames,
            )

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """Close the event file."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def _open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard looks for "tfevents" in file names, and reads the files in order of time.
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._events = RecordWriter((folder / name).open("xb"))
        self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def _write(self, values: list[Summary.Value], step: int) -> None:
        self._add(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def _add(self, event: Event) -> None:
        if self._events is not None:
            self._events.write(event.SerializeToString())
            self._unflushed += 1
            # By default once per iteration: cheap, and if the rank is killed, no event is lost.
            if self._unflushed >= self._flush:
                self._events.flush()
                self._unflushed = 0


def scalars(record: Scalars) -> dict[str, float]:
    """Return one iteration's scalars by TensorBoard tag.

    The library's metrics keep their names. The tags for episodes and speed are the same for every
    library. `iteration` is written too, so that frames (the x axis) can be converted to iterations.
    """
    tags = dict(record.values)
    if record.episode_return is not None:
        tags["episode/return"] = record.episode_return
    if record.episode_length is not None:
        tags["episode/length"] = record.episode_length
    if record.success_rate is not None:
        tags["episode/success"] = record.success_rate
    if record.fps:
        tags["performance/fps"] = sum(record.fps)
        tags["performance/fps_rank_min"] = min(record.fps)
        tags["performance/fps_rank_max"] = max(record.fps)
    tags["iteration"] = record.iteration
    return tags


def _overview(started: RunStarted) -> Mapping[str, object]:
    return {
        "task": started.task,
        "library": started.library,
        "algorithm": started.algorithm,
        "world size": started.world.world_size,
        "nodes": started.world.num_nodes,
        "device of rank 0": started.world.device,
        "environments a rank": started.num_envs,
        "seed": started.seed,
        "run folder": started.run_dir,
    }


def _text(tag: str, rows: Mapping[str, object]) -> Summary.Value:
    """Make a table for TensorBoard's text tab, which shows Markdown."""
    lines = ["| | |", "|---|---|", *(f"| {name} | `{value}` |" for name, value in rows.items())]
    content = "\n".join(lines).encode()
    return Summary.Value(
        tag=f"{tag}/text_summary",
        metadata=create_summary_metadata(display_name=tag, description=""),
        tensor=TensorProto(dtype=DT_STRING, string_val=[content]),
    )
