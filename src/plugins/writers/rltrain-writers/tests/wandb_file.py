"""Reads what wandb's client has written to the disk, which is what `wandb sync` uploads.

The file is in LevelDB's log format: blocks of 32 KiB with records, each in one part or more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from helpers import wait_for
from wandb.proto.wandb_internal_pb2 import Record

BLOCK = 32768
HEAD = struct.Struct("<IHB")
"""Checksum, length and kind of a part: whole, first, middle or last (1 to 4)."""


def records(file: Path) -> Iterator[Any]:
    """Yield the records that are whole: the client may still be writing."""
    data, at, held = file.read_bytes(), 7, b""
    while at + HEAD.size <= len(data):
        if BLOCK - at % BLOCK < HEAD.size:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = HEAD.unpack_from(data, at)
        if at + HEAD.size + length > len(data):
            return  # The client is still writing this part.
        held += data[at + HEAD.size : at + HEAD.size + length]
        at += HEAD.size + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(held)
            held = b""
            yield record


def items(found: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in found}


class Recorded:
    """What one run of the client has recorded."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.history: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}
        self.metrics: dict[str, str] = {}
        self.artifacts: list[Any] = []
        self.exit_code: int | None = None
        for record in records(file):
            self._add(record)

    def _add(self, record: Any) -> None:
        kind = record.WhichOneof("record_type")
        if kind == "run":
            self.run = record.run
            self.config |= items(record.run.config.update)
        elif kind == "config":
            self.config |= items(record.config.update)
        elif kind == "history":
            self.history.append(items(record.history.item))
        elif kind == "summary":
            self.summary |= items(record.summary.update)
        elif kind == "metric":
            metric = record.metric
            self.metrics[metric.name or metric.glob_name] = metric.step_metric
        elif kind == "artifact":
            self.artifacts.append(record.artifact)
        elif kind == "exit":
            self.exit_code = record.exit.exit_code


def recorded(run_dir: Path, *, ended: bool = True) -> list[Recorded]:
    """Return what was recorded in a run folder, in the order of starts.

    Args:
        run_dir: the run folder.
        ended: whether all of it has ended; otherwise only the last.
    """
    files = sorted(run_dir.glob("wandb/offline-run-*/run-*.wandb"))
    return [_ended(file) if ended or file is files[-1] else Recorded(file) for file in files]


def _ended(file: Path) -> Recorded:
    """Wait for the client's service process to write the end of a run."""

    def ended() -> Recorded | None:
        found = Recorded(file)
        return None if found.exit_code is None else found

    return wait_for(ended, seconds=20, every=0.05, what=f"{file} has no end")
