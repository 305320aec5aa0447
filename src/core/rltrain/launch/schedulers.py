"""Ranks that SLURM or Open MPI started, which jax finds by itself; nodes that a cluster counts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rltrain.errors import UsageError
from rltrain.types import World

__all__ = ["check_alone", "scheduled_world"]

_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")
"""What srun sets for each task; by all of these jax knows SLURM."""

_OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE")

_OPEN_MPI_URI = "OMPI_MCA_orte_hnp_uri"
"""Where mpirun is: from it jax takes the coordinator's address. Open MPI 5 does not set it."""

_OF_NODES = (
    ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"),
)
"""What clusters set for each node: how many there are, which one this is, where the first is."""


def check_alone(environ: Mapping[str, str]) -> None:
    """Refuse to start a run of this node alone where a cluster has started several nodes.

    PAI-DLC and Volcano count nodes with WORLD_SIZE and RANK; Kubeflow does with torchrun's PET_...,
    beside which its WORLD_SIZE may count ranks.

    Args:
        environ: the environment variables of a process that joins no ranks.

    Raises:
        UsageError: there are several nodes.
    """
    found = [names for names in _OF_NODES if environ.get(names[0]) and environ.get(names[1])]
    if not found:
        return
    count, rank, address, port = found[0]
    nodes = environ[count].rpartition(":")[2]  # At most, where a run may have 1:4 nodes.
    if not nodes.isdecimal() or int(nodes) < 2:
        return
    host = f"${address}" if environ.get(address) else "HOST_OF_NODE_0"
    flags = f"--nnodes ${count} --node-rank ${rank} --master-addr {host}"
    if environ.get(port):
        flags += f" --master-port ${port}"
    raise UsageError(
        f"The environment says {count}={environ[count]} and {rank}={environ[rank]} without "
        "LOCAL_RANK, as clusters do that count nodes: each node would train alone. For one run on "
        f"all of them add {flags}. If they count ranks, set LOCAL_RANK as well. For a run of this "
        f"node alone put `env -u {count} -u {rank}` before the command."
    )


def scheduled_world(environ: Mapping[str, str], addressed: bool) -> World | None:
    """Return this rank's place, if it is one of several tasks of srun or mpirun; else None.

    Args:
        environ: the environment variables.
        addressed: whether the coordinator's address is known without the scheduler.

    Raises:
        UsageError: nothing says where the coordinator is to be.
    """
    world = _of_slurm(environ) or _of_open_mpi(environ)
    if world is None or world.world_size == 1:
        return None
    if _of_slurm(environ) is None and not addressed and not environ.get(_OPEN_MPI_URI):
        raise UsageError(
            f"mpirun started {world.world_size} ranks, but does not say where "
            f"({_OPEN_MPI_URI} is not set, as before Open MPI 5). Add --coordinator-address "
            "HOST:PORT: the host of rank 0, and a port that is free there."
        )
    return world


def _of_slurm(environ: Mapping[str, str]) -> World | None:
    if not all(environ.get(name) for name in _SLURM):
        return None
    try:
        # In a step inside an allocation SLURM_NTASKS may be the allocation's.
        ranks = int(environ.get("SLURM_STEP_NUM_TASKS") or environ["SLURM_NTASKS"])
        node = int(environ.get("SLURM_NODEID") or 0)
        nodes = int(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
        counts = environ.get("SLURM_STEP_TASKS_PER_NODE") or str(ranks)
        rank, local = int(environ["SLURM_PROCID"]), int(environ["SLURM_LOCALID"])
        return World(rank, local, node, ranks, _tasks_per_node(counts)[node], nodes)
    except (ValueError, IndexError):
        raise _unreadable(environ, (*_SLURM[2:], "SLURM_STEP_TASKS_PER_NODE")) from None


def _tasks_per_node(text: str) -> list[int]:
    """Read SLURM's short form: "2(x3),1" is 2, 2, 2, 1."""
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", text)
    return [int(tasks) for tasks, times in found for _ in range(int(times or 1))]


def _of_open_mpi(environ: Mapping[str, str]) -> World | None:
    if not all(environ.get(name) for name in _OPEN_MPI):
        return None
    try:
        rank, local, ranks = (int(environ[name]) for name in _OPEN_MPI)
        here = int(environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or ranks)
        return World(rank, local, rank // here, ranks, here, -(-ranks // here))
    except (ValueError, ZeroDivisionError):
        raise _unreadable(environ, _OPEN_MPI) from None


def _unreadable(environ: Mapping[str, str], names: tuple[str, ...]) -> UsageError:
    values = ", ".join(f"{name}={environ.get(name)}" for name in names)
    return UsageError(f"The environment's {values} are not numbers of ranks.")
