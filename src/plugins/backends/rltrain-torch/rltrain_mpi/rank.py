"""The program that mpiexec starts for each rank: `python -m rltrain_mpi.rank FOLDER`."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from rltrain_mpi.console import join_console

WORK = "work"
"""The file with `sys.path`, and the configuration and work of a rank: its launcher wrote it."""

RESULT = "result"
"""The file with what rank 0 returned."""


def main() -> None:
    """Train as one rank. After a failure, this process ends without a result."""
    folder = Path(sys.argv[1])
    tell_number = join_console(folder)
    # The launcher's own files, in a folder that only this user can read.
    with (folder / WORK).open("rb") as file:
        sys.path[:] = pickle.load(file)
        config, work = pickle.load(file)
    from rltrain.launch import make_report, rank_variables, write_report
    from rltrain.types import World
    from rltrain_mpi.library import started_ranks

    size = int(config.nproc_per_node)
    try:
        number = started_ranks(size).Get_rank()
    except Exception as error:
        report = make_report(0, error)
        write_report(folder, report)
        os._exit(report.exit_code)
    tell_number(number)
    world = World(number, number, 0, size, size, 1)
    os.environ.update(rank_variables(world))
    result = work(config, str(folder))
    if result is not None:
        (folder / RESULT).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main()
