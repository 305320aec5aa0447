"""The launcher `mpi`: mpiexec starts this node's ranks."""

from __future__ import annotations

import contextlib
import os
import pickle
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

from rltrain.config import Placement
from rltrain.errors import RankFailed, UsageError
from rltrain.launch import (
    Notes,
    ask_to_end,
    ended_by_signal,
    failure,
    hang_watch,
    hide_rank_variables,
    private_folder,
)
from rltrain.nodes import CaughtSignals, caught_signals
from rltrain.types import TrainResult
from rltrain_mpi import rank
from rltrain_mpi.plugin import MpiOptions

SHUTDOWN_TIMEOUT = 5.0
"""Seconds between SIGTERM and SIGKILL for mpiexec, which ends its ranks."""

OUTPUT = "mpiexec"
"""The file with what mpiexec prints, and ranks before they have a log."""

LINES = 20

_ON_ONE_MACHINE = {"UCX_TLS": "shm,self"}
"""Ranks of one machine speak through its memory. UCX would listen on its networks too."""

_PERIOD = 0.5
"""Seconds between two checks of mpiexec and its ranks."""


class MpiLauncher:
    """Starts this node's ranks with mpiexec, and watches them."""

    def __init__(self, options: MpiOptions) -> None:
        self._options = options

    def launch(self, config: Placement, work: Callable[..., TrainResult | None]) -> TrainResult:
        """Start the ranks, wait for them, and return what rank 0 returned."""
        if config.backend != "mpi":
            raise UsageError(
                f"--launcher mpi: its ranks speak MPI, not {config.backend}. Add --backend mpi, or "
                "choose another launcher."
            )
        count = int(config.nproc_per_node or 1)
        with private_folder() as reports:
            words = [*mpiexec(self._options), "-n", str(count), sys.executable, "-m", rank.__name__]
            for_ranks = pickle.dumps(sys.path), ForkingPickler.dumps((config, work))
            (reports / rank.WORK).write_bytes(b"".join(for_ranks))
            environ = {**_ON_ONE_MACHINE, **os.environ}
            hide_rank_variables(environ)
            with (
                caught_signals() as signals,
                contextlib.closing(Console(reports)) as console,
                (reports / OUTPUT).open("wb") as output,
            ):
                process = subprocess.Popen(
                    [*words, str(reports)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environ,
                    process_group=0,  # What the terminal sends is for this process.
                )
                try:
                    _watch(process, console, signals, reports, hang_watch(config, reports))
                finally:
                    _end(process)
            if process.returncode == 0 and len(Notes(reports).done()) < count:
                raise failure(reports, next(iter(console.ended), None), 0)
            return _result(reports, process.returncode, console.ended)


class Console:
    """A socket in a private folder. Every rank connects, and stays connected.

    `ended` are the ranks that have ended, the first one first; None for one without a number.
    """

    def __init__(self, folder: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / rank.CONSOLE))
        self._listener.listen(socket.SOMAXCONN)
        self._ranks: dict[socket.socket, int | None] = {}
        self.ended: list[int | None] = []

    @property
    def sockets(self) -> list[socket.socket]:
        """The listener, and one for each rank that has not ended. `handle` those to read."""
        return [self._listener, *self._ranks]

    def handle(self, ready: socket.socket) -> None:
        """Give a new rank this process' standard output, or note a rank's number or its end."""
        if ready is self._listener:
            started, _ = self._listener.accept()
            self._ranks[started] = None
            with contextlib.suppress(OSError):  # It may have ended.
                socket.send_fds(started, [b"!"], (1, 2))
            return
        try:
            number = ready.recv(16)
        except ConnectionError:
            number = b""
        if number:
            self._ranks[ready] = int(number)
        else:
            self.ended.append(self._ranks.pop(ready))
            ready.close()

    def close(self) -> None:
        """Leave the ranks, which then end."""
        for each in self.sockets:
            each.close()


def mpiexec(options: MpiOptions) -> list[str]:
    """Return the words of the command."""
    if options.mpiexec:
        words = shlex.split(options.mpiexec)
        if shutil.which(words[0]) is None:
            raise UsageError(f"mpi.mpiexec={options.mpiexec}: there is no command {words[0]}.")
        return words
    here = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    found = here or shutil.which("mpiexec")
    if found is None:
        raise UsageError(
            "--launcher mpi: there is no mpiexec next to this Python or on PATH. Install one: pip "
            "install 'rltrain-torch[mpich]', or load your site's (module load openmpi)."
        )
    return [found]


def _watch(
    process: subprocess.Popen[bytes],
    console: Console,
    signals: CaughtSignals,
    reports: Path,
    check: Callable[[], None],
) -> None:
    """Wait until mpiexec has ended."""
    while process.poll() is None:
        for ready in wait([*console.sockets, signals.wakeup], _PERIOD):
            if isinstance(ready, socket.socket):
                console.handle(ready)
        check()
        for number in signals.take():
            if not ask_to_end(reports, number):
                raise ended_by_signal(number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End mpiexec, which ends its ranks, if it has not ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(SHUTDOWN_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def _result(reports: Path, status: int, ended: list[int | None]) -> TrainResult:
    """Return what rank 0 returned. `status` is that of mpiexec, `ended` the ranks in order."""
    if status != 0:
        if not any(reports.glob("rank_*")):  # No rank got as far as to have a log.
            printed = (reports / OUTPUT).read_text(errors="replace").strip()
            last = "\n".join(printed.splitlines()[-LINES:])
            raise RankFailed(f"mpiexec ended with status {status}, and printed last:\n{last}")
        raise failure(reports, ended[0] if ended else None, _exit_code(status))
    path = reports / rank.RESULT
    if not path.exists():  # What ranks do for the doctor has none.
        return TrainResult(0, 0, None, None, run_dir="")
    result: TrainResult = pickle.loads(path.read_bytes())
    return result


def _exit_code(status: int) -> int:
    """Return a rank's exit code, negative for a signal, from mpiexec's exit status.

    That of MPICH is the signal's number itself; that of Open MPI is 128 more, as in shells. Ranks
    that fail in Python have written a report, which counts.
    """
    number = status - 128 if status > 128 else status
    return -number if number in signal.valid_signals() and number > 2 else status
