"""Starts the processes of the backend kit and collects their results."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.launch import private_folder
from rltrain_devkit.kits import backend_process

TIMEOUT = 120
"""Seconds for all processes together."""


@dataclass(frozen=True)
class RankReport:
    """The results of one process."""

    rank: int
    checks: Mapping[str, Mapping[str, Any]]
    """For each check that it reached, {"result": ...} or {"error": traceback}."""
    end: str
    """How it ended, with the end of its output."""


def run_worlds(
    backend: str,
    device: str | None,
    devices: int,
    sizes: Sequence[int],
    started_by: Sequence[str] = (),
) -> list[list[RankReport]]:
    """Run worlds of these sizes at the same time, with one process per rank on this machine.

    Args:
        backend: the backend's name.
        device: the kind of device, or None for the backend's own.
        devices: number of these devices; 0 for the CPU.
        sizes: number of ranks of each world.
        started_by: a command that starts "{ranks}" processes, whose program is added to it; by
            default they are started here.

    Returns:
        For each world, a report by rank. Processes that do not end in time are killed.
    """
    with private_folder() as scratch:
        folders = [scratch / str(index) for index in range(len(sizes))]
        with _killed_on_exit() as processes:
            for folder, size in zip(folders, sizes, strict=True):
                folder.mkdir()
                program = (sys.executable, "-m", backend_process.__name__)
                words = [*program, backend, device or "", str(devices), str(folder)]
                if started_by:
                    command = [word.format(ranks=size) for word in started_by]
                    processes += [_start([*command, *words], folder, 0, _environ())] * size
                else:
                    processes += _ranks(words, folder, size)
            deadline = time.monotonic() + TIMEOUT
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        ended = iter(processes)
        return [
            [_report(folder, rank, next(ended).returncode) for rank in range(size)]
            for folder, size in zip(folders, sizes, strict=True)
        ]


def train_on_ranks(*words: str) -> str:
    """Train for an iteration by the command.

    Returns:
        If it did not end with status 0, the flags, how it ended, and the end of its output.
    """
    words = ("--distributed", *words, "--max-iterations", "1", "--num-envs", "8")
    with private_folder() as scratch, _killed_on_exit() as processes:
        program = [sys.executable, "-m", "rltrain", *words, "--log-root", str(scratch / "logs")]
        processes.append(_start(program, scratch, 0, _environ()))
        with suppress(subprocess.TimeoutExpired):
            processes[0].wait(TIMEOUT)
        status, output = processes[0].returncode, (scratch / "stderr.0").read_bytes()
    printed = output.decode(errors="replace")[-4000:]
    how = "did not end in time" if status is None else f"ended with status {status}"
    return "" if status == 0 else f"{' '.join(words)}: {how}. The end of its output:\n{printed}"


@contextmanager
def _killed_on_exit() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _ranks(words: list[str], folder: Path, size: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start the ranks of one world with the variables that a launcher sets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # With the same hash seed in all processes, fingerprints made with `hash` would look right.
    environ = {name: value for name, value in _environ().items() if name != "PYTHONHASHSEED"}
    for rank in range(size):
        variables = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": size,
            "LOCAL_WORLD_SIZE": size,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        of_rank = {name: str(value) for name, value in variables.items()}
        yield _start(words, folder, rank, {**environ, **of_rank})


def _environ() -> dict[str, str]:
    """Return the variables of a process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _start(
    words: list[str], folder: Path, rank: int, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process whose output goes to a file of a rank."""
    with (folder / f"stderr.{rank}").open("wb") as stderr:
        return subprocess.Popen(words, env=environ, stdout=stderr, stderr=stderr)


def _report(folder: Path, rank: int, code: int) -> RankReport:
    checks = {
        path.parent.name: json.loads(path.read_text()) for path in folder.glob(f"*/outcome.{rank}")
    }
    output = folder / f"stderr.{rank}"
    if not output.exists():
        output = folder / "stderr.0"  # Of the command that has started all of them.
    printed = output.read_text(errors="replace")[-4000:]
    end = (
        "It was killed because it did not end in time"
        if code == -9
        else f"It ended with status {code}"
    )
    return RankReport(rank, checks, f"{end}. The end of its output:\n{printed or '(nothing)'}")
