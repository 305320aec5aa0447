"""The program that mpiexec starts for each rank: `python -m rltrain_mpi.rank FOLDER`."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

CONSOLE = "console"
"""The socket of the launcher, which gives ranks its own standard output."""

WORK = "work"
"""The file with `sys.path`, and the configuration and work of a rank: its launcher wrote it."""

RESULT = "result"
"""The file with what rank 0 returned."""


def main() -> None:
    """Train as one rank. After a failure, this process ends without a result."""
    folder = Path(sys.argv[1])
    report_number = join_console(folder)
    # The launcher's own files, in a folder that only this user can read.
    with (folder / WORK).open("rb") as file:
        sys.path[:] = pickle.load(file)
        config, work = pickle.load(file)
    from rltrain.launch import make_report, rank_variables, write_report
    from rltrain.types import World
    from rltrain_mpi.backend import started_ranks

    size = int(config.nproc_per_node)
    try:
        number = started_ranks(size).Get_rank()
    except Exception as error:
        write_report(folder, report := make_report(0, error))
        os._exit(report.exit_code)
    report_number(number)
    world = World(number, number, 0, size, size, 1)
    os.environ.update(rank_variables(world))
    result = work(config, str(folder))
    if result is not None:
        (folder / RESULT).write_bytes(pickle.dumps(result))


def join_console(folder: Path) -> Callable[[int], None]:
    """Write to the launcher's standard output from now on, and end when the launcher ends.

    mpiexec copies what ranks print through pipes, and a rank asks the user's terminal for its
    width. The function that is returned reports this rank's number to the launcher.
    """
    launcher = socket.socket(socket.AF_UNIX)
    launcher.connect(str(folder / CONSOLE))
    _, received, _, _ = socket.recv_fds(launcher, 1, 2)
    for own, given in enumerate(received, 1):  # Standard output and standard error.
        os.dup2(given, own)
        os.close(given)

    def watch() -> None:
        with contextlib.suppress(ConnectionError):  # It ended before it read this rank's number.
            while launcher.recv(1):
                pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    return lambda number: launcher.sendall(b"%d" % number)


if __name__ == "__main__":
    main()
