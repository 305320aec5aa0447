"""`metrics.jsonl` in the run folder: what the writers are sent, one JSON object a line.

Every run has it, whatever writers are chosen. A line says in "record" what it is: "started",
"scalars", "checkpoint", "media", "warning" or "ended". Paths are relative to the run folder. NaN
and infinity are null. Ranks that start again in the same run folder add a line "started", and
repeat the iterations after their checkpoint: the later lines count.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError, in_a_line
from rltrain.files.reading import read_bytes
from rltrain.records import CheckpointSaved, Media, Record, RunEnded, RunStarted, Scalars, Warned
from rltrain.terminal import finite

METRICS = "metrics.jsonl"

_LARGEST = 1 << 30
"""Bytes of a file that is read: a million iterations with twenty values each."""

_KINDS: dict[str, type[Any]] = {
    "scalars": Scalars,
    "checkpoint": CheckpointSaved,
    "media": Media,
    "warning": Warned,
    "ended": RunEnded,
}
"""What a line says in "record"; its keys are the attributes of the record, but for these:"""
_KEYS = {"episode_return": "return", "episode_length": "length", "success_rate": "success"}


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
    """None if the run still trains, or was killed."""


class MetricsFile:
    """Writes the file, on rank 0."""

    def __init__(self, run: Path) -> None:
        self._run, self._path = run, run / METRICS

    def write(self, record: Record) -> None:
        """Add a record's line."""
        is_first = isinstance(record, RunStarted)
        line = _started(record) if isinstance(record, RunStarted) else _line(record, self._run)
        text = json.dumps(finite(line), allow_nan=False) + "\n"
        with self._path.open("a") as file:
            if is_first and file.tell():  # The last rank 0 may have been killed within a line.
                text = f"\n{text}"
            file.write(text)


def read_metrics(run: Path) -> RunMetrics:
    """Read what a run has recorded so far; the run may still train.

    A line that is half written is passed over.
    """
    try:
        text = read_bytes(run / METRICS, _LARGEST, run)
    except OSError as error:
        raise UsageError(
            f"{run / METRICS}: {error.strerror or error}. {run} is no run folder."
        ) from error
    try:
        return _read_lines(run, _parsed(text))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{run / METRICS}: is damaged ({in_a_line(error):.200}). Leave this run out."
        ) from error


def _parsed(text: bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines that are whole."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("record") in ("started", *_KINDS):
                yield found


def _read_lines(run: Path, lines: Iterable[dict[str, Any]]) -> RunMetrics:
    first: Started | None = None
    scalars: list[Scalars] = []
    by_path: dict[str, CheckpointSaved | Media] = {}
    warnings: list[Warned] = []
    ended: RunEnded | None = None
    later = 0.0
    for line in lines:
        if line["record"] == "started":
            given = {each.name: line[each.name] for each in fields(Started)}
            time = datetime.datetime.fromisoformat(line["time"])
            started = Started(**{**given, "time": time})
            first = first or started
            ended, later = None, (started.time - first.time).total_seconds()
            continue
        record = _read(line, run, later)
        match record:
            case Scalars():
                while scalars and scalars[-1].iteration >= record.iteration:
                    scalars.pop()
                scalars.append(record)
            case CheckpointSaved() | Media():
                by_path.pop(record.path, None)
                by_path[record.path] = record
            case Warned():
                warnings.append(record)
            case RunEnded():
                ended = record
    if first is None:
        raise ValueError("no line says what the run is")
    checkpoints = [each for each in by_path.values() if isinstance(each, CheckpointSaved)]
    media = [each for each in by_path.values() if isinstance(each, Media)]
    return RunMetrics(first, scalars, checkpoints, media, warnings, ended)


def _started(record: RunStarted) -> dict[str, Any]:
    given = {
        **vars(record),
        **vars(record.world),
        "iterations": record.iteration.iterations if record.iteration else None,
        "time": datetime.datetime.now().astimezone().isoformat(timespec="milliseconds"),
    }
    return {"record": "started"} | {each.name: given[each.name] for each in fields(Started)}


def _line(record: Record, run: Path) -> dict[str, Any]:
    (kind,) = (name for name, cls in _KINDS.items() if isinstance(record, cls))
    line = {"record": kind}
    for name, value in dataclasses.asdict(record).items():
        line[_KEYS.get(name, name)] = os.path.relpath(value, run) if name == "path" else value
    return line


def _read(line: Mapping[str, Any], run: Path, later: float) -> Any:
    """Return a line's record; `later` are seconds between the first start and its own."""
    kind = _KINDS[line["record"]]
    given: dict[str, Any] = {}
    for name in (each.name for each in fields(kind) if _KEYS.get(each.name, each.name) in line):
        value = line[_KEYS.get(name, name)]
        if name == "path":
            value = str(run / value)
        elif name == "seconds":
            value += later
        elif isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, dict):
            value = {key: math.nan if x is None else x for key, x in value.items()}
        given[name] = value
    return kind(**given)
