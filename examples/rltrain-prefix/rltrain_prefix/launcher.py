"""The launcher: starts each rank of one machine under a command."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rltrain.config import Placement
from rltrain.launch import (
    ask_to_end,
    ended_by_signal,
    failure,
    hang_watch,
    private_folder,
    rank_variables,
)
from rltrain.nodes import CaughtSignals, caught_signals
from rltrain.types import TrainResult, World
from rltrain_prefix.options import PrefixOptions

__all__ = ["RESULT", "WORK", "PrefixLauncher"]

WORK, RESULT = "work.pickle", "result.pickle"
"""What ranks are to do, and what rank 0 returned, in a folder that only this user can open."""

PERIOD, GRACE = 0.1, 5.0
"""Seconds between two looks at the ranks, and between SIGTERM and SIGKILL."""


class PrefixLauncher:
    """Starts one process per rank, and waits for all."""

    def __init__(self, options: PrefixOptions) -> None:
        self._options = options

    def launch(self, config: Placement, work: Callable[..., TrainResult | None]) -> TrainResult:
        """Start the ranks, wait for them, and return what rank 0 returned.

        Raises:
            RankFailed: a rank failed; the others have been ended.
            UsageError: a rank refused the options.
        """
        size = config.nproc_per_node or 1
        with private_folder() as folder, caught_signals() as signals:
            (folder / WORK).write_bytes(pickle.dumps((config, work, sys.path)))
            ranks: list[subprocess.Popen[bytes]] = []
            try:
                port = str(_free_port())
                for rank in range(size):
                    ranks.append(self._start(World(rank, rank, 0, size, size), port, folder))
                _wait(ranks, folder, signals, hang_watch(config, folder))
            finally:
                _end(ranks)
            result: TrainResult = pickle.loads((folder / RESULT).read_bytes())
        return result

    def _start(self, world: World, port: str, folder: Path) -> subprocess.Popen[bytes]:
        """Start one rank."""
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        python = [sys.executable, "-m", "rltrain_prefix.rank", str(folder)]
        return subprocess.Popen(
            [*self._options.words(world.rank), *python],
            env={**os.environ, **rank_variables(world), **master},
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _wait(
    ranks: Sequence[subprocess.Popen[bytes]],
    folder: Path,
    signals: CaughtSignals,
    look: Callable[[], None],
) -> None:
    """Wait until every rank has ended, and look for ranks that hang.

    Raises:
        RltrainError: the first failure, or a signal.
        KeyboardInterrupt: the signal was SIGINT.
    """
    while True:
        for number in signals.take():
            if not ask_to_end(folder, number):  # Some only ask for an end after the iteration.
                raise ended_by_signal(number)
        codes = [process.poll() for process in ranks]
        for rank, code in enumerate(codes):
            if code:
                raise failure(folder, rank, code)
        if None not in codes:
            return
        look()
        time.sleep(PERIOD)


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """End all ranks that still run. A rank whose peer is gone would wait for a long time."""
    running = [process for process in ranks if process.poll() is None]
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
