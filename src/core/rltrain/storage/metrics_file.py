"""`metrics.jsonl` in the run folder: what the writers are sent, one JSON object a line.

Every run has it, whatever writers are chosen. A line says in "record" what it is: "started",
"scalars", "checkpoint", "media", "warning" or "ended". Paths are relative to the run folder. NaN
and infinity are null. Ranks that start again in the same run folder add a line "started", and do
once more the iterations after their checkpoint: the later lines count.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rltrain.errors import UsageError, in_a_line
from rltrain.files.reading import read_bytes
from rltrain.records import CheckpointSaved, Media, Record, RunEnded, RunStarted, Scalars, Warned
from rltrain.storage.fitting import check_fields
from rltrain.terminal import finite

METRICS = "metrics.jsonl"

_LARGEST = 1 << 30
"""Bytes of a file that is read: a million iterations with twenty values each."""

_KINDS = {
    Scalars: "scalars",
    CheckpointSaved: "checkpoint",
    Media: "media",
    Warned: "warning",
    RunEnded: "ended",
}
"""What a line says in "record"; its keys are the attributes of the record, but for these:"""
_KEYS = {"episode_return": "return", "episode_length": "length", "success_rate": "success"}
_ATTRIBUTES = {key: name for name, key in _KEYS.items()}

RecordT = TypeVar("RecordT", Scalars, CheckpointSaved, Media, Warned, RunEnded)


@dataclass(frozen=True)
class Started:
    """What the run is."""

    time: datetime.datetime
    """When training began, with its time zone."""
    library: str
    algorithm: str
    task: str
    world_size: int
    num_nodes: int
    num_envs: int
    """Environments a rank."""
    seed: int
    frames: int
    """Environment steps before a loaded checkpoint."""
    iterations: int | None
    """Iteration at which training ends, if the library's options say it."""


@dataclass(frozen=True)
class RunMetrics:
    """What a run has recorded so far, from its `metrics.jsonl`."""

    started: Started
    scalars: list[Scalars] = field(default_factory=list)
    """By iteration, each once. `seconds` counts from the first start, with the time in which no
    rank was there. A value that was not finite is NaN."""
    checkpoints: list[CheckpointSaved] = field(default_factory=list)
    """In the order in which they were saved; `path` begins with that of the run folder."""
    media: list[Media] = field(default_factory=list)
    """Likewise."""
    warnings: list[Warned] = field(default_factory=list)
    ended: RunEnded | None = None
    """None if the run goes on, or was killed."""


class MetricsFile:
    """Writes the file, on rank 0. Lines with scalars are collected for an interval, in seconds."""

    def __init__(self, run: Path, interval: float = 1.0) -> None:
        self._run, self._path, self._interval = run, run / METRICS, interval
        self._waiting, self._written_at = b"", -math.inf

    def write(self, record: Record) -> None:
        """Write a record's line. Scalars of short iterations wait for those of the next ones."""
        line = _started(record) if isinstance(record, RunStarted) else _line(record, self._run)
        self._waiting += _text(line)
        if not isinstance(record, Scalars) or time.monotonic() - self._written_at >= self._interval:
            lines, self._waiting, self._written_at = self._waiting, b"", time.monotonic()
            with self._path.open("a+b") as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    lines = lines if file.read() == b"\n" else b"\n" + lines  # A rank was killed.
                file.write(lines)


def read_metrics(run: Path) -> RunMetrics:
    """Read what a run has recorded so far; the run may still train.

    A line that is half written is passed over.
    """
    lines = list(_lines(run))
    try:
        return _read_lines(run, lines)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{run / METRICS}: is damaged ({in_a_line(error):.200}). Leave this run out."
        ) from error


def _read_lines(run: Path, lines: list[dict[str, Any]]) -> RunMetrics:
    first = next((_read_started(line) for line in lines if line["record"] == "started"), None)
    if first is None:
        raise UsageError(f"{run / METRICS}: the file is damaged: no line says what the run is.")
    scalars: list[Scalars] = []
    checkpoints: dict[str, CheckpointSaved] = {}
    media: dict[str, Media] = {}
    warnings: list[Warned] = []
    ended, later = None, 0.0
    for line in lines:
        if "path" in line:
            line["path"] = str(run / line["path"])
        if "seconds" in line:
            line["seconds"] += later
        match line["record"]:
            case "started":
                ended, later = None, (_read_started(line).time - first.time).total_seconds()
            case "scalars":
                while scalars and scalars[-1].iteration >= line["iteration"]:
                    scalars.pop()
                scalars.append(_read(Scalars, line))
            case "checkpoint":
                checkpoints.pop(line["path"], None)
                checkpoints[line["path"]] = _read(CheckpointSaved, line)
            case "media":
                media.pop(line["path"], None)
                media[line["path"]] = _read(Media, line)
            case "warning":
                warnings.append(_read(Warned, line))
            case "ended":
                ended = _read(RunEnded, line)
    return RunMetrics(first, scalars, [*checkpoints.values()], [*media.values()], warnings, ended)


def _started(record: RunStarted) -> dict[str, Any]:
    given = {
        **vars(record),
        **vars(record.world),
        "iterations": record.iteration.iterations if record.iteration else None,
        "time": datetime.datetime.now().astimezone().isoformat(timespec="milliseconds"),
    }
    fields = [each.name for each in dataclasses.fields(Started)]
    return {"record": "started", **{name: given[name] for name in fields}}


def _line(record: Record, run: Path) -> dict[str, Any]:
    line = {"record": _KINDS[type(record)]}
    for name, value in dataclasses.asdict(record).items():
        line[_KEYS.get(name, name)] = os.path.relpath(value, run) if name == "path" else value
    return line


def _text(line: Mapping[str, Any]) -> bytes:
    return (json.dumps(finite(line), allow_nan=False) + "\n").encode()


def _lines(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run's file that are whole."""
    try:
        text = read_bytes(run / METRICS, _LARGEST, run)
    except OSError as error:
        raise UsageError(
            f"{run / METRICS}: {error.strerror or error}. {run} is no run folder."
        ) from error
    for line in text.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and "record" in found:
                yield found


def _read_started(line: Mapping[str, Any]) -> Started:
    names = [each.name for each in dataclasses.fields(Started) if each.name != "time"]
    given = {name: line[name] for name in names}
    check_fields(Started, given)
    return Started(time=datetime.datetime.fromisoformat(line["time"]), **given)


def _read(kind: type[RecordT], line: Mapping[str, Any]) -> RecordT:
    names = [each.name for each in dataclasses.fields(kind)]
    given = {_ATTRIBUTES.get(key, key): value for key, value in line.items()}
    given = {name: given[name] for name in names if name in given}
    check_fields(kind, given)
    for name, value in given.items():
        if isinstance(value, list):
            given[name] = tuple(value)
        elif isinstance(value, dict):
            given[name] = {key: math.nan if x is None else x for key, x in value.items()}
    return kind(**given)
