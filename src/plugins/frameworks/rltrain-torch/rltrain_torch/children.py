"""The ranks that torch elastic has forked, and the server from which they are forked."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from multiprocessing.util import get_temp_dir
from pathlib import Path

from rltrain.errors import RankFailed
from rltrain.launch import Process, console_stream, ended_early, failure, ranks_done

_TO_STOP = 0.5
"""Seconds in which a process stops."""


class Children:
    """Looks after what torch elastic does not know of its ranks."""

    def __init__(self, reports: Path) -> None:
        """Begin before torch elastic starts ranks.

        Args:
            reports: where they report.
        """
        self._reports = reports
        self._others = set(multiprocessing.active_children())
        self._ranks: set[BaseProcess] = set()
        self._server: int | None = None
        if not any(Path(get_temp_dir()).glob("listener-*")):
            self.abandon()  # Its socket was removed: nothing reaches it. There will be a new one.

    def look(self) -> None:
        """Look at them, again and again."""
        self._ranks |= self._living()
        self._look_at_server()
        ended = {rank.pid for rank in self._ranks if rank.exitcode == 0 and rank.pid is not None}
        if undone := ended - ranks_done(self._reports):
            raise ended_early(self._reports, undone)

    def failure(self, rank: int, exit_code: int) -> BaseException:
        """Return why a rank has failed: as if by itself, if its server has gone."""
        if self._server is None or Process.look(self._server) is not None:
            return failure(self._reports, rank, exit_code)
        return RankFailed(
            f"Process {self._server}, from which this node's ranks are forked, was killed from "
            "outside. If nobody killed it by hand, the machine may have run out of memory.",
            headline="The process from which ranks are forked was killed from outside",
        )

    def kill(self) -> None:
        """End ranks that torch elastic does not know: a signal came while it started them.

        When this process ends, multiprocessing waits for each of them, and they for this process'
        end.
        """
        for rank in self._living():
            rank.kill()
            rank.join()

    def abandon(self) -> None:
        """End the server and its children: one that a signal kept from being known may come yet.

        Without this process it would find nothing of what it needs, and print a traceback.
        """
        if self._others:
            return  # A script's own processes may come from the same server.
        for server in (pid for pid in _children(os.getpid()) if _is_server(pid)):
            deadline = time.monotonic() + _TO_STOP
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(server, signal.SIGSTOP)  # It forks no more.
                while (seen := Process.look(server)) and not seen.stopped:
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.001)
                for pid in [*_children(server), server]:
                    os.kill(pid, signal.SIGKILL)
                os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)  # Or it seems to live.

    def _living(self) -> set[BaseProcess]:
        return set(multiprocessing.active_children()) - self._others

    def _look_at_server(self) -> None:
        """Let the server go on, if it is stopped: only it hears that a rank has ended."""
        if self._server is None:
            ranks = (Process.look(rank.pid or 0) for rank in self._ranks)
            self._server = next((rank.parent for rank in ranks if rank is not None), None)
        server = Process.look(self._server) if self._server is not None else None
        if self._server is not None and server is not None and server.stopped:
            os.kill(self._server, signal.SIGCONT)
            print(
                f"rltrain: process {self._server}, from which this node's ranks are forked, was "
                "stopped. It goes on.",
                file=console_stream(),
                flush=True,
            )


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started; none where Linux does not tell."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def _is_server(pid: int) -> bool:
    try:
        return b"multiprocessing.forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
