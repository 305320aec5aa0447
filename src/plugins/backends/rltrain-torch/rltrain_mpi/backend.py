"""The backend `mpi`."""

from __future__ import annotations

from rltrain import hookimpl
from rltrain.config import Placement
from rltrain.types import World
from rltrain_mpi.library import finalize_at_exit, started_ranks
from rltrain_torch.backends import TorchBackend
from rltrain_torch.group import TorchProcessGroup
from rltrain_torch.threads import share_cores


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
        finalize_at_exit()


def _create(world: World) -> None:
    everyone = started_ranks(world.world_size)  # Explains what is missing.
    from rltrain_mpi.torch_group import create_default_group

    create_default_group(everyone, world)
