"""Launchers and schedulers that start ranks: the variables that they set, as a table.

SLURM's are those of srun's manual, "output environment variables". Address and port are those that
jax takes (`jax/_src/clusters/`), so that its users see no difference.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from rltrain.clusters import StartedRank, read_numbers, read_port, read_rank, shown
from rltrain.errors import UsageError
from rltrain.specs import ClusterSpec
from rltrain.types import World

_INTERACTIVE = ("4294967290", "interactive")
"""The step in which salloc starts a shell, where the site has it do so; see slurm.h."""

_PORTS = 4096
"""The master's port is one of the last so many, chosen by the job's number: two jobs on a node
rarely have the same. Open MPI's job numbers are multiples of this."""

_APART = 521
"""How far the ports of two steps of a job, which may run side by side, are apart."""

_ANSWER_TIMEOUT = 10.0
"""Seconds for an answer of scontrol."""


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


def _ranks(
    environ: Mapping[str, str], rank: str, size: str, local: str, local_size: str
) -> StartedRank | None:
    """Return a rank's place by these variables; None if nothing or only one rank was started."""
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


def _open_mpi(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of Open MPI's mpirun; see its manual, "environment variables".

    Open MPI 4 sets the address of mpirun's own node, and the job's number. Open MPI 5 sets a name
    of the job. Azure ML sets the first node's address.
    """
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    found = _ranks(environ, *(f"OMPI_COMM_WORLD_{name}" for name in names))
    if found is None:
        return None
    host = environ.get("AZ_BATCH_MASTER_NODE", "").partition(":")[0] or None
    name = environ.get("PMIX_NAMESPACE")
    port = _port(zlib.crc32(name.encode())) if name else None
    uri = environ.get("OMPI_MCA_orte_hnp_uri", "")
    if job := re.match(r"(\d+)\..*?(?:tcp://([^,:]+)|tcp6://\[([^,\]]+))", uri):
        host, port = job[2] or job[3], _port(int(job[1]) // _PORTS)
    return dataclasses.replace(found, master_addr=found.master_addr or host, master_port=port)


def _mpich(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of Hydra, the mpiexec of MPICH and of Intel MPI.

    srun, flux and PALS set PMI_RANK too, without the two local variables.
    """
    others = ("SLURM_PROCID", "FLUX_TASK_RANK", "PALS_RANKID")
    if not environ.get("MPI_LOCALRANKID") and any(environ.get(name) for name in others):
        return None
    return _ranks(environ, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")


def _pals(environ: Mapping[str, str]) -> StartedRank | None:
    names = ("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")
    return _ranks(environ, *names) if environ.get("PALS_RANKID") else None


def _flux(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a task of flux run; see its manual, "environment".

    Flux says how many nodes there are, not how many tasks this one has.
    """
    if not environ.get("FLUX_TASK_RANK"):
        return None
    size, nodes = read_numbers(environ, "FLUX_JOB_SIZE", "FLUX_JOB_NNODES")
    tasks = f"FLUX_JOB_NNODES={nodes}, so tasks a node"
    here = {**environ, tasks: str(-(-size // max(nodes, 1)))}
    return _ranks(here, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", tasks)


def _slurm(environ: Mapping[str, str]) -> StartedRank | None:
    """Return this task's place; None outside of srun, and for a step of one task.

    A batch script itself is no task of srun: it has no SLURM_STEP_NODELIST. Nor is the shell that
    salloc gives, on the machine where it was typed or as a step of its own on the first node.
    """
    if not environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_STEP_ID") in _INTERACTIVE:
        _check_outside(environ)
        return None
    # In a job step, SLURM_NTASKS may be that of the whole allocation.
    size = "SLURM_STEP_NUM_TASKS" if environ.get("SLURM_STEP_NUM_TASKS") else "SLURM_NTASKS"
    names = ("SLURM_PROCID", "SLURM_LOCALID", size)
    rank, local, ranks, job = read_numbers(environ, *names, "SLURM_JOB_ID")
    (step,) = read_numbers({"SLURM_STEP_ID": "0", **environ}, "SLURM_STEP_ID")
    if ranks == 1:
        return None
    try:
        node = int(environ.get("SLURM_NODEID") or 0)
        nodes = int(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
        # SLURM's short form: "2(x3),1" is 2, 2, 2, 1.
        short = environ.get("SLURM_STEP_TASKS_PER_NODE") or str(ranks)
        found = re.findall(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", short)
        tasks = [int(tasks) for tasks, times in found for _ in range(int(times or 1))]
        world = World(rank, local, node, ranks, tasks[node], nodes)
    except (ValueError, IndexError):
        of_nodes = ("SLURM_NODEID", "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE")
        raise UsageError(
            f"The environment variables {shown(environ, (*names, *of_nodes))} are not valid rank "
            "numbers. Unset or correct them."
        ) from None
    # Of the list's short form, the first host: that of "n[03-5,9],m1" is "n03".
    first = re.sub(r"\[(\w+).*", r"\1", environ["SLURM_STEP_NODELIST"]).partition(",")[0]
    return StartedRank(
        world=world,
        variables=names,
        master_addr=first,
        master_port=_port(job + _APART * step),
    )


def _check_outside(environ: Mapping[str, str]) -> None:
    job, nodes = environ.get("SLURM_JOB_ID"), environ.get("SLURM_JOB_NUM_NODES", "")
    if not job or not nodes.isdecimal() or int(nodes) < 2:
        return
    names = environ.get("SLURM_JOB_NODELIST", "")
    raise UsageError(
        f"Job {job} of SLURM has {nodes} nodes ({names}), and without srun this would train on one "
        "machine. Type `srun rltrain ...`, which starts a task a rank, or with --ntasks-per-node 1 "
        "--nproc-per-node N one a node; or say --cluster none to use this machine only."
    )


def _address_by_slurm(host: str) -> str | None:
    """Ask SLURM for a node's address (NodeAddr); None if it does not answer."""
    command = ["scontrol", "--oneliner", "show", "node", host]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bNodeAddr=(\S+)", done.stdout)
    return found[1] if found else None


def _port(job: int) -> int:
    return 65536 - _PORTS + job % _PORTS


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
    _spec("open-mpi", 10, _open_mpi, "ranks of Open MPI's mpirun", *_OF_OPEN_MPI),
    _spec("mpich", 10, _mpich, "ranks of mpiexec of MPICH and Intel MPI", "PMI_*", "MPI_LOCAL*"),
    _spec("pals", 10, _pals, "ranks of Cray's mpiexec", "PALS_*", "PMI_*"),
    _spec("flux", 20, _flux, "tasks of flux run", "FLUX_*"),
    _spec("slurm", 20, _slurm, "tasks of srun", "SLURM_*", resolve=_address_by_slurm),
)
