"""The MPI library that mpi4py has found. Imports mpi4py inside of functions only."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from rltrain.errors import UsageError

if TYPE_CHECKING:
    from mpi4py import MPI


def about() -> dict[str, str]:
    """Return which MPI there is."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    return {"mpi4py": mpi4py.__version__, "MPI": _name(MPI.Get_library_version())}


def started_ranks(size: int) -> MPI.Intracomm:
    """Return the communicator of all ranks that mpiexec started. The first call is collective."""
    import mpi4py

    # What finalizes waits for all ranks. After a failure some are not there: then the process ends
    # without, and mpiexec ends the others.
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f"--backend mpi: mpi4py finds no MPI library: {error} Install one: "
            "pip install 'rltrain-torch[mpich]', or load your site's (module load openmpi)."
        ) from error
    atexit.unregister(MPI.Finalize)  # Of an earlier run in this process.
    started = MPI.COMM_WORLD.Get_size()
    if started != size:
        raise UsageError(
            f"--backend mpi: MPI knows {started} rank(s), and the run has {size}. "
            f"mpi4py uses {_name(MPI.Get_library_version())}: start the ranks with the mpiexec of "
            "that library, or with --launcher mpi."
        )
    return MPI.COMM_WORLD


def finalize_at_exit() -> None:
    """Take leave of MPI when this process ends: the run has succeeded, so all ranks will."""
    from mpi4py import MPI

    atexit.register(MPI.Finalize)


def _name(version: str) -> str:
    """Return the first line of a library's description of itself."""
    lines = [" ".join(line.split()) for line in version.splitlines() if line.strip()]
    return lines[0].rstrip("\0") if lines else "an unknown MPI"
