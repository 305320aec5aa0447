"""The launcher `processes`: the standard library starts and watches the ranks."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

from rltrain.config import RunConfig
from rltrain.launch import (
    available_cores,
    ended_by_signal,
    failure,
    hide_rank_variables,
    rank_variables,
)
from rltrain.types import TrainResult, World

__all__ = ["ProcessesLauncher", "held_port"]

SHUTDOWN_TIMEOUT = 5
"""Seconds that ranks get to end after a signal, before they are killed."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"
"""Semaphores of a rank that was ended are cleaned up, and need no warning."""

Work = Callable[..., TrainResult | None]


@dataclass(frozen=True)
class _Rank:
    """A rank that was started."""

    number: int
    process: SpawnProcess
    results: Connection
    """Where its result comes, once it has one."""

    def outcome(self) -> list[TrainResult | None]:
        """Return the one result of a rank that has ended; none if it only exited."""
        try:
            return [self.results.recv()] if self.process.exitcode == 0 else []
        except (EOFError, OSError):
            return []


class ProcessesLauncher:
    """Starts this node's ranks as processes of their own, and watches them.

    Neither this process nor what it needs to start ranks imports a tensor framework.
    """

    def launch(self, config: RunConfig, work: Work) -> TrainResult:
        """Start the ranks, wait for them, and return what rank 0 returned.

        On a node that has no rank 0 the result is that of an empty run.

        Raises:
            RankFailed: a rank failed. Its exit code is that of the first that did, or 128 and the
                number of the signal that ended it.
            UsageError: a rank refused what was asked for.
        """
        reports = Path(tempfile.mkdtemp(prefix="rltrain-"))
        ranks: list[_Rank] = []
        try:
            with _caught_signals() as signals, held_port() as port:
                try:
                    _start(config, work, reports, ranks, port)
                    results = _watch(ranks, signals, reports)
                finally:
                    _end(ranks, signals)
        finally:
            shutil.rmtree(reports, ignore_errors=True)
        return next(filter(None, results), TrainResult(0, 0, None, None, run_dir=""))


def _start(
    config: RunConfig, work: Work, reports: Path, ranks: list[_Rank], free_port: int
) -> None:
    """Start this node's ranks, each with the variables of its place, and put them in the list."""
    spawn, here, node = multiprocessing.get_context("spawn"), _ranks_here(config), config.node_rank
    common = _common_variables(config, free_port)
    for local_rank in range(here):
        rank = node * here + local_rank
        world = World(rank, local_rank, node, config.nnodes * here, here, config.nnodes)
        receiver, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_rank, args=(work, config, str(reports), sender))
        # A rank's variables must be there before it imports anything: they count its threads.
        with _environment({**common, **rank_variables(world)}), _interrupts_blocked():
            process.start()
        sender.close()
        ranks.append(_Rank(rank, process, receiver))


def _rank(work: Work, config: RunConfig, reports: str, sender: Connection) -> None:
    """Be a rank, and send what it came to."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        sender.send(work(config, reports))
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)


def _ranks_here(config: RunConfig) -> int:
    return int(config.nproc_per_node or 1)


def _common_variables(config: RunConfig, free_port: int) -> dict[str, str]:
    """Return what all ranks of this node are told by their environment."""
    threads = str(max(1, available_cores() // _ranks_here(config)))
    host, port = config.master_addr, config.master_port
    if config.nnodes == 1:
        host, port = "127.0.0.1", free_port  # Two runs on one machine do not meet.
    variables = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    # XLA on the CPU reads the second; the user's own choice stands.
    defaults = {"OMP_NUM_THREADS": threads, "PJRT_NPROC": threads}
    variables |= {name: os.environ.get(name, value) for name, value in defaults.items()}
    warnings = [os.environ.get("PYTHONWARNINGS"), _QUIET]
    return {**variables, "PYTHONWARNINGS": ",".join(filter(None, warnings))}


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """Find a free port, and keep others from taking it before rank 0 listens there.

    Linux gives the port of a socket that is bound, and does not listen, to nobody who does not ask
    for its reuse. Servers do, those of jax and torch among them.
    """
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        # Not before: two runs that both ask for reuse may find the same port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]


def _watch(ranks: list[_Rank], signals: _Signals, reports: Path) -> list[TrainResult | None]:
    """Wait until all ranks have ended, and return their results.

    Raises:
        RltrainError: one has failed, or a signal came.
        KeyboardInterrupt: the signal was Ctrl-C's.
    """
    running = {rank.process.sentinel: rank for rank in ranks}
    results: list[TrainResult | None] = []
    while running:
        ready = wait([*running, signals.wakeup])
        if signals.seen:
            raise ended_by_signal(signals.seen[0])
        for rank in [running.pop(sentinel) for sentinel in ready if isinstance(sentinel, int)]:
            rank.process.join()
            outcome = rank.outcome()
            if not outcome:
                raise failure(reports, rank.number, rank.process.exitcode or 0)
            results += outcome
    return results


def _end(ranks: list[_Rank], signals: _Signals) -> None:
    """End what still runs: asked first, then killed; at once if a signal comes meanwhile."""
    running = {rank.process.sentinel: rank.process for rank in ranks if rank.process.is_alive()}
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


class _Signals:
    """The signals that came, and a connection that can be read once one has."""

    def __init__(self) -> None:
        self.seen: list[signal.Signals] = []
        self.wakeup, self._bell = multiprocessing.Pipe(duplex=False)

    def note(self, number: int, frame: FrameType | None) -> None:
        """Be a handler: only remember, since anything may have been going on."""
        self.seen.append(signal.Signals(number))
        self._bell.send_bytes(b"!")

    def drain(self) -> None:
        """Wait anew for the next one."""
        while self.wakeup.poll():
            self.wakeup.recv_bytes()

    def close(self) -> None:
        """Let go of the connection."""
        self.wakeup.close()
        self._bell.close()


@contextlib.contextmanager
def _caught_signals() -> Iterator[_Signals]:
    """Note signals while the context is open; outside the main thread Python allows no handler."""
    signals, handlers = _Signals(), {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            # What is ignored stays so: nohup does it, for one.
            if signal.getsignal(number) != signal.SIG_IGN:
                handlers[number] = signal.signal(number, signals.note)
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signals.close()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Hold Ctrl-C back, also from a process that is started now, until it is ready for it."""
    # The standard library starts its tracker with the first process, and then unblocks signals.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Lend a process that is started now these variables, and no place that this one has."""
    saved = dict(os.environ)
    hide_rank_variables(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
