"""The launcher `processes`: starts this node's ranks by the standard library, and watches them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path

from rltrain.builtin.server import Work, serve
from rltrain.config import Placement, RunConfig
from rltrain.errors import RankFailed
from rltrain.launch import (
    OF_SCHEDULERS,
    ask_to_end,
    ended_by_signal,
    failure,
    hang_watch,
    hide_rank_variables,
    private_folder,
    rank_variables,
)
from rltrain.nodes import CaughtSignals, caught_signals, connected_nodes, hold_port
from rltrain.plugins import discover
from rltrain.specs import BackendSpec, LibrarySpec
from rltrain.types import TrainResult, World

SHUTDOWN_TIMEOUT = 5
"""Seconds between SIGTERM and SIGKILL for a rank."""

_PERIOD = 0.5
"""Seconds between two checks for ranks that hang."""

_QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"
"""The resource tracker cleans up the semaphores of a terminated rank; its warning is noise."""


class ProcessesLauncher:
    """Starts this node's ranks as processes, and watches them.

    They are forked from a process that has imported what all of them need: eight start as fast as
    one. The launcher's own process imports no tensor framework.
    """

    def launch(self, config: Placement, work: Work) -> TrainResult:
        """Start the ranks, wait for them, and return what rank 0 returned.

        A node without rank 0 returns the result of an empty run.
        """
        with (
            private_folder() as reports,
            connected_nodes(config) as check,
            caught_signals() as signals,
            hold_port() as holder,
        ):
            ranks = _Ranks(config, work, reports, holder.getsockname()[1])
            try:
                results = ranks.watch(signals, check, hang_watch(config, reports))
            finally:
                ranks.end(signals)
        return next(filter(None, results), TrainResult(0, 0, None, None, run_dir=""))


class _Ranks:
    """The ranks of this node, and the process from which they are forked."""

    def __init__(self, config: Placement, work: Work, reports: Path, free_port: int) -> None:
        self._reports = reports
        self._results: list[TrainResult | None] = []
        self._running: dict[int, int] = {}
        """By number, the process of each rank that has started and not ended."""
        ranks = _variables(config, free_port)
        self._left = len(ranks)
        spawn = multiprocessing.get_context("spawn")
        self._link, theirs = spawn.Pipe()
        given = os.getpid(), theirs, _preloaded(config), ranks, work, config, str(reports)
        self._server = spawn.Process(target=serve, args=given, name="ranks")
        with _environment(), _signals_blocked():
            self._server.start()
        theirs.close()
        assert self._server.pid is not None
        # Its own sentinel is a pipe that ranks inherit, and what they fork.
        self._ended = os.pidfd_open(self._server.pid)

    def watch(
        self, signals: CaughtSignals, *checks: Callable[[], None]
    ) -> list[TrainResult | None]:
        """Wait until all ranks have ended, and return their results."""
        while self._left:
            ready = wait([self._link, self._ended, signals.wakeup], _PERIOD)
            for check in checks:
                check()
            for number in signals.take():
                if not ask_to_end(self._reports, number):
                    raise ended_by_signal(number)
            for rank, code, result in self._heard():
                if result is None:
                    raise failure(self._reports, rank, code)
                self._results += result
            if self._left and self._ended in ready:
                raise self._lost()
        return self._results

    def end(self, signals: CaughtSignals) -> None:
        """Terminate the running ranks, then kill them; a signal in between kills them at once."""
        self._end(signal.SIGTERM, signals)
        self._end(signal.SIGKILL, signals)
        if self._left:
            self._server.terminate()  # It may be forking one.
        self._server.join(SHUTDOWN_TIMEOUT)
        self._server.kill()
        self._server.join()
        os.close(self._ended)
        self._link.close()

    def _end(self, number: int, signals: CaughtSignals) -> None:
        """Send the running ranks a signal, and wait until they have ended, for a time."""
        deadline, seen = time.monotonic() + SHUTDOWN_TIMEOUT, len(signals.seen)
        for pid in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while (
            self._running
            and len(signals.seen) == seen
            and (left := deadline - time.monotonic()) > 0
        ):
            if self._ended in wait([self._link, self._ended, signals.wakeup], left):
                break
            signals.drain()
            list(self._heard())

    def _heard(self) -> Iterator[tuple[int, int, list[TrainResult | None] | None]]:
        """Yield number, exit status and result of the ranks that have ended since the last call."""
        with contextlib.suppress(EOFError, OSError):
            while self._link.poll():
                rank, *said = self._link.recv()
                if len(said) == 1:
                    self._running[rank] = said[0]
                    continue
                self._running.pop(rank, None)
                self._left -= 1
                yield rank, *said

    def _lost(self) -> BaseException:
        """Return why there are no ranks any more."""
        self._server.join()
        code = self._server.exitcode or 0
        if code >= 0:  # It could not import the script, and has said why.
            return failure(self._reports, 0, code)
        return RankFailed(
            f"Process {self._server.pid}, from which this node's ranks are forked, was killed from "
            "outside. If no one killed it by hand, the machine may have run out of memory.",
            headline="The process from which ranks are forked was killed from outside",
        )


def _variables(config: Placement, free_port: int) -> list[tuple[int, dict[str, str]]]:
    """Return number and environment variables of each rank of this node."""
    here, node = int(config.nproc_per_node or 1), config.node_rank
    host, port = config.master_addr, config.master_port
    if config.nnodes == 1:
        host, port = "127.0.0.1", free_port  # Two runs on one machine must not share a port.
    master = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    worlds = [
        World(node * here + local, local, node, config.nnodes * here, here, config.nnodes)
        for local in range(here)
    ]
    return [(world.rank, {**master, **rank_variables(world)}) for world in worlds]


def _preloaded(config: Placement) -> list[str]:
    """Return the modules that are imported once for all ranks."""
    registry = discover(config.no_plugins)
    backends = registry.all(BackendSpec)
    framework = [x.preload for x in backends if x.framework == config.framework and x.preload]
    if not framework:
        return []
    found = [framework[0], "rltrain.run.worker"]
    if isinstance(config, RunConfig):
        library = registry.get(LibrarySpec, config.library)
        found += filter(None, [library.preload.get(config.device_kind)])
    return found


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals, here and in a process that starts now, until that ignores them.

    Those of a terminal, and those that schedulers send to each process of a job, are for this one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_SCHEDULERS)
    try:
        resource_tracker.ensure_running()  # The server would start it. It unblocks SIGINT.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Hide this process' rank variables, and the resource tracker's warnings."""
    saved = dict(os.environ)
    hide_rank_variables(os.environ)
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [saved.get("PYTHONWARNINGS"), _QUIET]))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
