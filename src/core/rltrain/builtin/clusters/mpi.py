"""Ranks that mpirun, mpiexec, jsrun or flux run have started: a table of their variables."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Mapping

from rltrain.clusters import StartedRank, read_numbers, read_rank, shown
from rltrain.errors import UsageError

_PORTS = 4096
"""As in `slurm`, and in jax's `jax/_src/clusters/ompi_cluster.py`: Open MPI's job numbers are
multiples of this."""


def open_mpi(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of Open MPI's mpirun; see its manual, "environment variables".

    Open MPI 4 sets the address of mpirun's own node, and the job's number. Open MPI 5 sets a name
    of the job. Azure ML sets the first node's address.
    """
    found = _find(environ, "OMPI_COMM_WORLD_", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    uri, name = environ.get("OMPI_MCA_orte_hnp_uri", ""), environ.get("PMIX_NAMESPACE")
    if found is None:
        return None
    if name:
        found = dataclasses.replace(found, master_port=_port(zlib.crc32(name.encode())))
    address = re.search(r"tcp://([^,:]+)|tcp6://\[([^,\]]+)", uri)
    job = uri.partition(".")[0]
    if address is not None and job.isdecimal():
        host, port = address[1] or address[2], _port(int(job) // _PORTS)
        found = dataclasses.replace(found, master_addr=host, master_port=port)
    of_azure = environ.get("AZ_BATCH_MASTER_NODE", "").partition(":")[0]
    return dataclasses.replace(found, master_addr=found.master_addr or of_azure or None)


def mpich(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of Hydra, the mpiexec of MPICH and of Intel MPI.

    srun, flux and PALS set PMI_RANK too, without the two local variables.
    """
    others = ("SLURM_PROCID", "FLUX_TASK_RANK", "PALS_RANKID")
    if not environ.get("MPI_LOCALRANKID") and any(environ.get(name) for name in others):
        return None
    return _find(environ, "", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")


def pals(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of mpiexec or aprun of Cray's PALS."""
    names = ("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")
    return _find(environ, "", *names) if environ.get("PALS_RANKID") else None


def mvapich(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of MVAPICH2; see its user guide, section 6.2."""
    return _find(environ, "MV2_COMM_WORLD_", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")


def jsrun(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of LSF's jsrun."""
    return _find(environ, "JSM_NAMESPACE_", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")


def flux(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a task of flux run; see its manual, "environment".

    Flux says how many nodes there are, not how many tasks this one has.
    """
    names = ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_NNODES")
    if not environ.get("FLUX_TASK_RANK"):
        return None
    size, nodes = read_numbers(environ, "FLUX_JOB_SIZE", "FLUX_JOB_NNODES")
    tasks = f"FLUX_JOB_NNODES={nodes}, so tasks a node"
    here = {**environ, tasks: str(-(-size // max(nodes, 1)))}
    return _find(here, "", *names[:3], tasks)


def _port(job: int) -> int:
    return 65536 - _PORTS + job % _PORTS


def _find(
    environ: Mapping[str, str], prefix: str, rank: str, size: str, local: str, local_size: str
) -> StartedRank | None:
    """Return a rank's place; None if nothing or only one rank was started."""
    rank, size, local, local_size = (prefix + name for name in (rank, size, local, local_size))
    if not (environ.get(rank) or environ.get(size)):
        return None
    _, ranks = read_numbers(environ, rank, size)
    if ranks == 1:
        return None
    if not environ.get(local):
        raise UsageError(
            f"{shown(environ, (rank, size, local))}: several ranks were started, and this one's "
            f"number on its node is unknown. Set {local}, or say --cluster none: then each trains "
            "alone."
        )
    world = read_rank(
        environ, rank=rank, local_rank=local, world_size=size, local_world_size=local_size
    )
    return StartedRank(
        world=world,
        variables=(rank, local, size),
        # On one node every rank reaches the others by the loopback interface.
        master_addr="127.0.0.1" if world.num_nodes == 1 else None,
    )
