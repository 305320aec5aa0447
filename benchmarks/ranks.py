"""Runs real gloo ranks on this machine, for benchmarks that must see inside them."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMEOUT = 180
"""Seconds for one run, after which ranks that wait for each other forever are killed."""


def on_ranks(
    function: Callable[..., Any], ranks: int, *arguments: Any, timeout: float = TIMEOUT
) -> list[Any] | str:
    """Call `function(*arguments, folder)` in `ranks` processes with a rank's environment variables.

    Returns:
        Each rank's result, or a word that says how the run failed.
    """
    context = multiprocessing.get_context("spawn")
    box = context.Queue()
    with socket.socket() as found, tempfile.TemporaryDirectory() as folder:
        found.bind(("127.0.0.1", 0))
        place = {"WORLD_SIZE": ranks, "MASTER_PORT": found.getsockname()[1]}
        found.close()
        processes = [
            context.Process(
                target=_run_rank,
                args=(function, (*arguments, folder), {**place, "RANK": rank}, box),
            )
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        try:
            results = _results(box, processes, timeout)
        finally:
            for process in processes:
                process.join(timeout=5)
                process.kill()
                process.join()
    return results if isinstance(results, str) else [results[rank] for rank in range(ranks)]


def _run_rank(
    function: Callable[..., Any], arguments: tuple[Any, ...], place: dict[str, int], box: Any
) -> None:
    """Run in one process: call the function, and send its result or the name of its error."""
    rank = place["RANK"]
    os.environ.update({name: str(value) for name, value in place.items()}, LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1", GIT_PYTHON_REFRESH="quiet")
    log = (Path(arguments[-1]) / f"{rank}.log").open("w")
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    try:
        box.put((rank, function(*arguments)))
    except Exception as error:
        box.put((rank, type(error).__name__))
        raise


def _results(box: Any, processes: list[Any], timeout: float) -> dict[int, Any] | str:
    results: dict[int, Any] = {}
    deadline = time.monotonic() + timeout
    while len(results) < len(processes) and time.monotonic() < deadline:
        try:
            rank, value = box.get(timeout=1)
        except queue.Empty:
            killed = [-process.exitcode for process in processes if (process.exitcode or 0) < 0]
            if killed:
                return f"aborts ({signal.Signals(killed[0]).name})"
            continue
        if isinstance(value, str):
            return f"aborts ({value})"
        results[rank] = value
    return results if len(results) == len(processes) else "hangs"
