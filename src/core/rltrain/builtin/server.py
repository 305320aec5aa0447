"""The process from which the ranks of a node are forked: it imports once what they all need."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import FrameType
from typing import Any

from rltrain.config import Placement
from rltrain.launch import OF_SCHEDULERS, end_with_parent
from rltrain.types import TrainResult

Work = Callable[..., TrainResult | None]

_OF_OTHERS = (signal.SIGINT, *OF_SCHEDULERS)
"""Signals that a terminal, timeout(1) and schedulers send to each process: the launcher's."""


def serve(
    launcher: int,
    link: Connection,
    modules: Sequence[str],
    ranks: Sequence[tuple[int, dict[str, str]]],
    work: Work,
    config: Placement,
    reports: str,
) -> None:
    """Fork the ranks, and send the launcher, by its process ID, each that has started or ended.

    What is sent is its number and process ID; then its number, exit status, and a list with its
    result, or None if there is none.
    """
    end_with_parent()
    if os.getppid() != launcher:
        os._exit(1)  # It has ended already.
    # To take all modules apart takes longer than importing half of them. This runs last.
    atexit.register(os._exit, 0)
    os.setpgid(0, 0)
    for number in _OF_OTHERS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_OTHERS)
    for module in modules:
        with contextlib.suppress(Exception):  # It fails again in a rank, which reports it.
            importlib.import_module(module)
    fork = multiprocessing.get_context("fork")
    running: dict[int, tuple[int, ForkProcess, Connection]] = {}

    def end(number: int, frame: FrameType | None) -> None:
        for _, process, _ in running.values():
            process.kill()
        sys.exit()

    # What was imported cleans up, also where the launcher was killed.
    signal.signal(signal.SIGTERM, end)
    end_with_parent(signal.SIGTERM)
    if os.getppid() != launcher:
        sys.exit()
    for rank, variables in ranks:
        receiver, sender = fork.Pipe(duplex=False)
        given = link, sender, variables, work, config, reports
        process = fork.Process(target=_rank, args=given, name=f"rank {rank}")
        process.start()
        sender.close()
        assert process.pid is not None
        # Its own sentinel is a pipe that every process inherits which the rank forks.
        running[os.pidfd_open(process.pid)] = rank, process, receiver
        link.send((rank, process.pid))
    while running:
        for ended in wait([*running]):
            assert isinstance(ended, int)
            rank, process, receiver = running.pop(ended)
            process.join()
            link.send((rank, process.exitcode, _result(process, receiver)))


def _rank(
    link: Connection,
    sender: Connection,
    variables: dict[str, str],
    work: Work,
    config: Placement,
    reports: str,
) -> None:
    """Run a rank, and send its result."""
    end_with_parent()
    link.close()
    os.environ.update(variables)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sender.send(work(config, reports))
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)


def _result(process: ForkProcess, receiver: Connection) -> list[Any] | None:
    """Return the one result of a rank that has ended; None if it exited without one."""
    with contextlib.suppress(EOFError, OSError):
        if process.exitcode == 0 and receiver.poll():  # Helpers hold this pipe.
            return [receiver.recv()]
    return None
