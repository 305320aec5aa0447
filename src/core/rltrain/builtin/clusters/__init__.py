"""What launchers and schedulers set: pure functions of the environment variables, and their specs.

Each module has a group of clusters that look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rltrain.builtin.clusters import mpi, slurm
from rltrain.clusters import StartedRank, read_port
from rltrain.specs import ClusterSpec


def _torchrun(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of torchrun; None unless all three variables are set.

    Clusters such as PAI-DLC set RANK and WORLD_SIZE to count nodes: without LOCAL_RANK they do
    not count ranks.
    """
    from rltrain.launch import rank_from_env  # Each command imports this module.

    world = rank_from_env(environ)
    if world is None:
        return None
    return StartedRank(
        world=world,
        variables=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
        master_addr=environ.get("MASTER_ADDR"),
        master_port=read_port(environ, "MASTER_PORT"),
    )


def _spec(name: str, order: int, find: _Find, summary: str, *of: str, **more: Any) -> ClusterSpec:
    return ClusterSpec(name=name, order=order, find=find, summary=summary, variables=of, **more)


_Find = Callable[[Mapping[str, str]], StartedRank | None]
_OF_TORCHRUN = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*"),
)
_OF_OPEN_MPI = ("OMPI_COMM_WORLD_*", "OMPI_MCA_orte_hnp_uri", "AZ_BATCH_MASTER_NODE")

CLUSTERS = (
    _spec(
        *("torchrun", 0, _torchrun, "ranks of torchrun, Ray Train, DeepSpeed, Azure ML"),
        *_OF_TORCHRUN,
    ),
    _spec("open-mpi", 10, mpi.open_mpi, "ranks of Open MPI's mpirun", *_OF_OPEN_MPI),
    _spec("mpich", 10, mpi.mpich, "ranks of mpiexec of MPICH and Intel MPI", "PMI_*", "MPI_LOCAL*"),
    _spec("mvapich", 10, mpi.mvapich, "ranks of MVAPICH2", "MV2_COMM_WORLD_*"),
    _spec("jsrun", 10, mpi.jsrun, "ranks of LSF's jsrun", "JSM_NAMESPACE_*"),
    _spec("pals", 10, mpi.pals, "ranks of Cray's mpiexec", "PALS_*", "PMI_*"),
    _spec("flux", 20, mpi.flux, "tasks of flux run", "FLUX_*"),
    _spec("slurm", 20, slurm.find, "tasks of srun", "SLURM_*", resolve=slurm.resolve),
)
