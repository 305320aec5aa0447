"""The launcher `processes`: starts and watches ranks with the standard library."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from rltrain.config import Placement
from rltrain.launch import (
    OF_SCHEDULERS,
    ask_to_end,
    available_cores,
    ended_by_signal,
    failure,
    hide_rank_variables,
    private_folder,
    rank_variables,
    with_temporary_files,
)
from rltrain.nodes import CaughtSignals, caught_signals, connected_nodes, hold_port
from rltrain.types import TrainResult, World
from rltrain.watch import hang_watch

SHUTDOWN_TIMEOUT = 5
"""Seconds between SIGTERM and SIGKILL for a rank."""

_PERIOD = 0.5
"""Seconds between two looks for ranks that hang."""

_QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"
"""The resource tracker cleans up the semaphores of a terminated rank; its warning is noise."""

Work = Callable[..., TrainResult | None]


@dataclass(frozen=True)
class _Rank:
    """A started rank."""

    number: int
    process: SpawnProcess
    results: Connection
    """Receives its result."""
    ended: int
    """A descriptor that is readable once the process has ended. The process' own sentinel is a pipe
    that every process inherits which the rank forks: it stays open while one of them lives."""

    def outcome(self) -> list[TrainResult | None]:
        """Return the one result of a rank that has ended; none if it exited without one."""
        try:
            there = self.process.exitcode == 0 and self.results.poll()  # Helpers hold this pipe.
            return [self.results.recv()] if there else []
        except (EOFError, OSError):
            return []


class ProcessesLauncher:
    """Starts this node's ranks as processes, and watches them.

    The launcher's own process imports no tensor framework.
    """

    def launch(self, config: Placement, work: Work) -> TrainResult:
        """Start the ranks, wait for them, and return what rank 0 returned.

        A node without rank 0 returns the result of an empty run.
        """
        ranks: list[_Rank] = []
        with (
            private_folder() as reports,
            connected_nodes(config, reports),
            with_temporary_files(reports),
            caught_signals() as signals,
            hold_port() as holder,
        ):
            try:
                _start(config, work, reports, ranks, holder.getsockname()[1])
                results = _watch(ranks, signals, reports, hang_watch(config, reports))
            finally:
                _end(ranks, signals)
        return next(filter(None, results), TrainResult(0, 0, None, None, run_dir=""))


def _start(
    config: Placement, work: Work, reports: Path, ranks: list[_Rank], free_port: int
) -> None:
    """Start this node's ranks with their environment variables, and append them to the list."""
    spawn, here, node = multiprocessing.get_context("spawn"), _ranks_here(config), config.node_rank
    common = _common_variables(config, free_port)
    for local_rank in range(here):
        rank = node * here + local_rank
        world = World(rank, local_rank, node, config.nnodes * here, here, config.nnodes)
        receiver, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_rank, args=(work, config, str(reports), sender))
        # A rank needs its variables before it imports anything: they limit its threads.
        with _environment({**common, **rank_variables(world)}), _signals_blocked():
            process.start()
        sender.close()
        ranks.append(_Rank(rank, process, receiver, os.pidfd_open(process.pid or 0)))


def _rank(work: Work, config: Placement, reports: str, sender: Connection) -> None:
    """Run a rank, and send its result."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        sender.send(work(config, reports))
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)


def _ranks_here(config: Placement) -> int:
    return int(config.nproc_per_node or 1)


def _common_variables(config: Placement, free_port: int) -> dict[str, str]:
    """Return the environment variables that all ranks of this node share."""
    threads = str(max(1, available_cores() // _ranks_here(config)))
    host, port = config.master_addr, config.master_port
    if config.nnodes == 1:
        host, port = "127.0.0.1", free_port  # Two runs on one machine must not share a port.
    variables = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    # XLA on the CPU reads the second one. Values that the user set win.
    defaults = {"OMP_NUM_THREADS": threads, "PJRT_NPROC": threads}
    variables |= {name: os.environ.get(name, value) for name, value in defaults.items()}
    warnings = [os.environ.get("PYTHONWARNINGS"), _QUIET]
    return {**variables, "PYTHONWARNINGS": ",".join(filter(None, warnings))}


def _watch(
    ranks: list[_Rank], signals: CaughtSignals, reports: Path, look: Callable[[], None]
) -> list[TrainResult | None]:
    """Wait until all ranks have ended, and return their results."""
    running = {rank.ended: rank for rank in ranks}
    results: list[TrainResult | None] = []
    while running:
        ready = wait([*running, signals.wakeup], _PERIOD)
        look()
        for number in signals.take():
            if not ask_to_end(reports, number):
                raise ended_by_signal(number)
        for rank in [running.pop(sentinel) for sentinel in ready if isinstance(sentinel, int)]:
            rank.process.join()
            outcome = rank.outcome()
            if not outcome:
                raise failure(reports, rank.number, rank.process.exitcode or 0)
            results += outcome
    return results


def _end(ranks: list[_Rank], signals: CaughtSignals) -> None:
    """Terminate the running ranks, then kill them; a signal in between kills them at once."""
    running = {rank.ended: rank.process for rank in ranks if rank.process.is_alive()}
    for process in running.values():
        process.terminate()
    deadline, seen = time.monotonic() + SHUTDOWN_TIMEOUT, len(signals.seen)
    while running and len(signals.seen) == seen and (left := deadline - time.monotonic()) > 0:
        for sentinel in wait([*running, signals.wakeup], left):
            if isinstance(sentinel, int):
                del running[sentinel]
            else:
                signals.drain()
    for process in running.values():
        process.kill()
    for rank in ranks:
        rank.process.join()
        rank.process.close()
        rank.results.close()
        os.close(rank.ended)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals, here and in a process that starts now.

    SIGINT until it can handle it. Those that schedulers send to each process of a job, for ever:
    they are for this one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_SCHEDULERS)
    try:
        resource_tracker.ensure_running()  # The first rank would start it. It unblocks SIGINT.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set these variables for a process that starts now, without this one's rank variables."""
    saved = dict(os.environ)
    hide_rank_variables(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
