"""`evaluations.jsonl` in the run folder: what `rltrain evaluate` found, one JSON object a line.

A line has the fields of `Evaluated`, and as "env" the task's options with which it was played.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from rltrain.data import parse_json
from rltrain.runs import read_text

EVALUATIONS = "evaluations.jsonl"
"""The file's name."""

_LARGEST = 16 << 20
"""Bytes of a file that is read: some 30,000 evaluations."""


@dataclass(frozen=True)
class Evaluated:
    """What was found of one checkpoint."""

    time: str
    """When, in ISO 8601."""
    checkpoint: str
    """Its path in the run folder."""
    digest: str
    """The SHA-256 of its file."""
    iteration: int | None
    episodes: int
    """Of all seeds together."""
    seeds: tuple[int, ...]
    returns: float
    """Their mean."""
    returns_interval: tuple[float, ...]
    """Bounds of its 95 % bootstrap interval."""
    iqm: float
    """The interquartile mean of the returns."""
    iqm_interval: tuple[float, ...]
    length: float
    """Mean number of steps of an episode."""
    success: float | None
    """The share of episodes that were a success; None if the task does not say it."""
    task: str = ""
    """The task that was played; of rltrain 0.1.0's evaluations, the run's."""


def add_evaluation(run: Path, found: Evaluated, env: Mapping[str, Any]) -> None:
    """Add a line.

    Args:
        run: the run folder. A link in the file's place is refused: others may have made the folder.
        found: of a checkpoint in the run folder.
        env: the task's options with which it was played, without secrets.
    """
    line = json.dumps({**dataclasses.asdict(found), "env": dict(env)}, default=str) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(run / EVALUATIONS, flags, 0o666), "wb") as file:
        file.write(line.encode())


def read_evaluations(run: Path) -> list[Evaluated]:
    """Read the lines; damaged ones are skipped."""
    found: list[Evaluated] = []
    try:
        lines = read_text(run / EVALUATIONS, _LARGEST, run).splitlines()
    except OSError:
        return found
    names = [each.name for each in dataclasses.fields(Evaluated)]
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            read = parse_json(line)
            given = {name: read[name] for name in names if name in read}
            _check_types(given)
            found.append(Evaluated(**given))
    return found


def _check_types(given: Mapping[str, Any]) -> None:
    """Refuse values that no evaluation has: anyone may have written the file."""
    for name, kind in get_type_hints(Evaluated).items():
        kinds = [get_origin(each) or each for each in (get_args(kind) or (kind,))]
        kinds = [list] if get_origin(kind) is tuple else [*kinds, *[int] * (float in kinds)]
        if name in given and not isinstance(given[name], tuple(kinds)):
            raise TypeError(name)
