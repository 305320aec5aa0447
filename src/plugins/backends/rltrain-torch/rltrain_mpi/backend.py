"""The backend `mpi`. Functions import mpi4py: that starts MPI, which waits for all ranks."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from rltrain import hookimpl
from rltrain.config import Placement
from rltrain.errors import UsageError
from rltrain.types import World
from rltrain_torch.backends import TorchBackend
from rltrain_torch.group import TorchProcessGroup
from rltrain_torch.threads import share_cores

if TYPE_CHECKING:
    from mpi4py import MPI


class MpiBackend(TorchBackend):
    """torch on the CPU, whose ranks communicate by MPI."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> TorchProcessGroup:
        """Create a group of all ranks that mpiexec started."""
        share_cores(world)
        return MpiProcessGroup(world)


class MpiProcessGroup(TorchProcessGroup):
    """A `ProcessGroup` over MPI that is also torch's default group."""

    def __init__(self, world: World) -> None:
        """Create the default group. Collective."""
        super().__init__("rltrain_mpi", world, create=_create)

    def close(self) -> None:
        """Destroy the default group. MPI is left when the process ends."""
        super().close()
        from mpi4py import MPI

        atexit.register(MPI.Finalize)  # The run has succeeded, so all ranks will get there.


def _create(world: World) -> None:
    everyone = started_ranks(world.world_size)  # Explains what is missing.
    from rltrain_mpi.torch_group import create_default_group

    create_default_group(everyone, world)


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


def _name(version: str) -> str:
    """Return the first line of a library's description of itself."""
    lines = [" ".join(line.split()) for line in version.splitlines() if line.strip()]
    return lines[0].rstrip("\0") if lines else "an unknown MPI"
