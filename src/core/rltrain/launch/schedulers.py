"""Ranks started by SLURM or Open MPI, which jax detects by itself; nodes counted by a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rltrain.errors import UsageError
from rltrain.types import World

__all__ = ["check_alone", "scheduled_world"]

_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")
"""What srun sets for each task; jax detects SLURM if all of them are set."""

_OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE")

_OPEN_MPI_URI = "OMPI_MCA_orte_hnp_uri"
"""The address of mpirun, which jax uses for its coordinator. Open MPI 5 does not set it."""

_OF_NODES = (
    ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"),
)
"""What clusters set for each node: number of nodes, this node's rank, the first node's address."""


def check_alone(environ: Mapping[str, str]) -> None:
    """Refuse to start a run on this node alone if a cluster has started several nodes.

    PAI-DLC and Volcano count nodes with WORLD_SIZE and RANK. Kubeflow counts them with torchrun's
    PET_... variables, and its WORLD_SIZE may count ranks.

    Args:
        environ: the environment variables of a process that joins no ranks.

    Raises:
        UsageError: there are several nodes.
    """
    found = [names for names in _OF_NODES if environ.get(names[0]) and environ.get(names[1])]
    if not found:
        return
    count, rank, address, port = found[0]
    nodes = environ[count].rpartition(":")[2]  # The maximum of a range such as "1:4".
    if not nodes.isdecimal() or int(nodes) < 2:
        return
    host = f"${address}" if environ.get(address) else "HOST_OF_NODE_0"
    flags = f"--nnodes ${count} --node-rank ${rank} --master-addr {host}"
    if environ.get(port):
        flags += f" --master-port ${port}"
    raise UsageError(
        f"The environment sets {count}={environ[count]} and {rank}={environ[rank]} without "
        "LOCAL_RANK, like clusters that count nodes: each node would train alone. For one run on "
        f"all nodes add {flags}. If they count ranks, set LOCAL_RANK as well. To train on this "
        f"node alone put `env -u {count} -u {rank}` before the command."
    )


def scheduled_world(environ: Mapping[str, str], addressed: bool) -> World | None:
    """Return this rank's place, if it is one of several tasks of srun or mpirun; else None.

    Args:
        environ: the environment variables.
        addressed: whether the coordinator's address is known without the scheduler.

    Raises:
        UsageError: the coordinator's address is unknown.
    """
    world = _of_slurm(environ) or _of_open_mpi(environ)
    if world is None or world.world_size == 1:
        return None
    if _of_slurm(environ) is None and not addressed and not environ.get(_OPEN_MPI_URI):
        raise UsageError(
            f"mpirun started {world.world_size} ranks, but did not set {_OPEN_MPI_URI}, from which "
            "jax takes the coordinator's address (Open MPI 5 no longer sets it). Add "
            "--coordinator-address HOST:PORT: the host of rank 0, and a free port there."
        )
    return world


def _of_slurm(environ: Mapping[str, str]) -> World | None:
    if not all(environ.get(name) for name in _SLURM):
        return None
    try:
        # In a job step, SLURM_NTASKS may be that of the whole allocation.
        ranks = int(environ.get("SLURM_STEP_NUM_TASKS") or environ["SLURM_NTASKS"])
        node = int(environ.get("SLURM_NODEID") or 0)
        nodes = int(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
        counts = environ.get("SLURM_STEP_TASKS_PER_NODE") or str(ranks)
        rank, local = int(environ["SLURM_PROCID"]), int(environ["SLURM_LOCALID"])
        return World(rank, local, node, ranks, _tasks_per_node(counts)[node], nodes)
    except (ValueError, IndexError):
        raise _unreadable(environ, (*_SLURM[2:], "SLURM_STEP_TASKS_PER_NODE")) from None


def _tasks_per_node(text: str) -> list[int]:
    """Parse SLURM's short form: "2(x3),1" is 2, 2, 2, 1."""
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
    return UsageError(
        f"The environment variables {values} are not valid rank numbers. Unset or correct them."
    )
