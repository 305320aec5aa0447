"""Hostile bytes are refused by name, in bounded time and memory, and run no code.

`make fuzz SECONDS=3600` tries other inputs for an hour; here a fixed seed tries some of each.
"""

from __future__ import annotations

import random
import shutil
import time
import traceback
import tracemalloc
from pathlib import Path

import pytest
from damage import damaged
from targets import TARGETS, Target
from watched import nothing_runs

INPUTS = 400
"""That a test run tries of each kind, the same in every run."""
SECONDS = 5.0
"""Of a core that an input may take. One that waits for ever runs into the test's own limit."""
LONGEST = 20_000
"""Letters of a message: twice the longest word in the inputs, and more."""
MEMORY = 256 << 20
"""Bytes that reading an input of at most 1 MB may take at once."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_are_refused(name, tmp_path, fuzz):
    tried, findings = run(TARGETS[name], tmp_path, *fuzz)
    print(f"{name}: {tried:,} inputs, {len(findings)} findings")
    assert not findings, "\n\n".join(findings.values())


def run(
    target: Target, folder: Path, seed: int, seconds: float | None
) -> tuple[int, dict[str, str]]:
    """Read damaged inputs, for some seconds or a number; return it, and what was wrong by line."""
    chance, seeds, findings = random.Random(seed), target.seeds(), {}
    for valid in seeds:
        _read(target, valid, folder / "valid")
    tried, end = 0, time.monotonic() + (seconds or 0)
    while tried < INPUTS if seconds is None else time.monotonic() < end:
        data = damaged(chance.choice(seeds), seeds, chance)
        tried += 1
        found = _finding(target, data, folder / "tried")
        if found is not None:
            findings.setdefault(*found)
    return tried, findings


def _read(target: Target, data: bytes, folder: Path) -> None:
    folder.mkdir()
    try:
        target.read(data, folder)
    finally:
        shutil.rmtree(folder)


def _finding(target: Target, data: bytes, folder: Path) -> tuple[str, str] | None:
    """Return where an input was not handled, and how; None if it was."""
    began = time.process_time()
    try:
        with nothing_runs():
            _read(target, data, folder)
    except target.refuses as refused:
        if len(str(refused)) > LONGEST:
            return type(refused).__name__, f"{data!r}: a message of {len(str(refused)):,} letters"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{type(error).__name__} in {frames[-1].filename}:{frames[-1].lineno}"
        ours = [f"{each.filename}:{each.lineno}" for each in frames if "rltrain" in each.filename]
        return where, f"{where} ({error}) by {ours[-1:]}: {data[:3000]!r}"
    if time.process_time() - began > SECONDS:
        return "time", f"{time.process_time() - began:.1f} s: {data[:3000]!r}"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_take_little_memory(name, tmp_path):
    """A sample, because measuring memory takes as long as many inputs."""
    target, chance = TARGETS[name], random.Random(7)
    seeds = target.seeds()
    for valid in seeds:
        _read(target, valid, tmp_path / "valid")
    tracemalloc.start()
    try:
        for _ in range(40):
            data = damaged(chance.choice(seeds), seeds, chance)
            tracemalloc.reset_peak()
            _finding(target, data, tmp_path / "tried")
            assert tracemalloc.get_traced_memory()[1] < MEMORY, data[:3000]
    finally:
        tracemalloc.stop()
