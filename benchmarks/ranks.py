"""Runs real ranks on this machine, for benchmarks that must see inside them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import runpy
import signal
import socket
import subprocess
import sys
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


def on_mpi_ranks(
    function: Callable[..., Any], ranks: int, *arguments: Any, timeout: float = TIMEOUT
) -> list[Any] | str:
    """Do the same in processes that mpiexec starts."""
    from rltrain_mpi.launcher import mpiexec
    from rltrain_mpi.plugin import MpiOptions

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "call").write_bytes(pickle.dumps((*arguments, folder)))
        words = [*mpiexec(MpiOptions()), "-n", str(ranks), sys.executable, __file__]
        words += [function.__code__.co_filename, function.__name__, folder]
        try:
            done = subprocess.run(words, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode:
            return f"aborts ({done.returncode})"
        return [pickle.loads((Path(folder) / str(rank)).read_bytes()) for rank in range(ranks)]


def _run_mpi_rank(file: str, name: str, folder: Path) -> None:
    """Run in one process of mpiexec: call the function, and write its result."""
    rank, ranks = os.environ["PMI_RANK"], os.environ["PMI_SIZE"]
    arguments = pickle.loads((folder / "call").read_bytes())
    _become_rank(int(rank), {"WORLD_SIZE": int(ranks)}, folder)
    (folder / rank).write_bytes(pickle.dumps(runpy.run_path(file)[name](*arguments)))


def _become_rank(rank: int, place: dict[str, int], folder: Path) -> None:
    """Set a rank's environment variables, and write to its log."""
    os.environ.update({name: str(value) for name, value in place.items()})
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1")
    os.environ.update(OMP_NUM_THREADS="1", GIT_PYTHON_REFRESH="quiet")
    log = (folder / f"{rank}.log").open("w")
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)


def _run_rank(
    function: Callable[..., Any], arguments: tuple[Any, ...], place: dict[str, int], box: Any
) -> None:
    """Run in one process: call the function, and send its result or the name of its error."""
    rank = place["RANK"]
    _become_rank(rank, place, Path(arguments[-1]))
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


if __name__ == "__main__":
    _run_mpi_rank(*sys.argv[1:3], Path(sys.argv[3]))
