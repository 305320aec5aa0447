"""What launchers and schedulers set: pure functions of the environment variables, and their specs.

Each module has a group of clusters that look alike.
"""

from __future__ import annotations

from rltrain.builtin.clusters import mpi, slurm, torchrun
from rltrain.specs import ClusterSpec

__all__ = ["CLUSTERS"]

CLUSTERS = (
    ClusterSpec(
        name="torchrun",
        find=torchrun.find,
        order=0,
        variables=(
            *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
            *("GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*"),
        ),
        summary="ranks of torchrun, Ray Train, DeepSpeed, Azure ML",
    ),
    ClusterSpec(
        name="open-mpi",
        find=mpi.open_mpi,
        order=10,
        variables=("OMPI_COMM_WORLD_*", "OMPI_MCA_orte_hnp_uri", "AZ_BATCH_MASTER_NODE"),
        summary="ranks of Open MPI's mpirun",
    ),
    ClusterSpec(
        name="mpich",
        find=mpi.mpich,
        order=10,
        variables=("PMI_*", "MPI_LOCAL*"),
        summary="ranks of mpiexec of MPICH and Intel MPI",
    ),
    ClusterSpec(
        name="mvapich",
        find=mpi.mvapich,
        order=10,
        variables=("MV2_COMM_WORLD_*",),
        summary="ranks of MVAPICH2",
    ),
    ClusterSpec(
        name="jsrun",
        find=mpi.jsrun,
        order=10,
        variables=("JSM_NAMESPACE_*",),
        summary="ranks of LSF's jsrun",
    ),
    ClusterSpec(
        name="pals",
        find=mpi.pals,
        order=10,
        variables=("PALS_*", "PMI_*"),
        summary="ranks of Cray's mpiexec",
    ),
    ClusterSpec(
        name="flux",
        find=mpi.flux,
        order=20,
        variables=("FLUX_*",),
        summary="tasks of flux run",
    ),
    ClusterSpec(
        name="slurm",
        find=slurm.find,
        order=20,
        variables=("SLURM_*",),
        resolve=slurm.resolve,
        summary="tasks of srun",
    ),
)
