"""Tasks of SLURM's srun, each of which is a rank.

The variables are those of srun's manual, "output environment variables". jax reads the same ones
and takes the same address and port, so that its users see no difference.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from rltrain.clusters import StartedRank, read_numbers, shown
from rltrain.errors import UsageError
from rltrain.types import World

_VARIABLES = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")

_INTERACTIVE = ("4294967290", "interactive")
"""The step in which salloc starts a shell, where the site has it do so; see slurm.h."""

_PORTS = 4096
"""The coordinator's port is one of the last so many, chosen by the job's number, as in jax's
`jax/_src/clusters/slurm_cluster.py`: two jobs on a node rarely meet."""

_APART = 521
"""How far the ports of two steps of a job, which may run side by side, are apart."""

_ANSWER_TIMEOUT = 10.0
"""Seconds for an answer of scontrol."""


def find(environ: Mapping[str, str]) -> StartedRank | None:
    """Return this task's place; None outside of srun, and for a step of one task.

    A batch script itself is no task of srun: it has no SLURM_STEP_NODELIST. Nor is the shell that
    salloc gives, on the machine where it was typed or as a step of its own on the first node.
    """
    if not environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_STEP_ID") in _INTERACTIVE:
        _check_outside(environ)
        return None
    rank, local, job = read_numbers(environ, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_ID")
    (step,) = read_numbers({"SLURM_STEP_ID": "0", **environ}, "SLURM_STEP_ID")
    # In a job step, SLURM_NTASKS may be that of the whole allocation.
    size = "SLURM_STEP_NUM_TASKS" if environ.get("SLURM_STEP_NUM_TASKS") else "SLURM_NTASKS"
    (ranks,) = read_numbers(environ, size)
    if ranks == 1:
        return None
    counts = environ.get("SLURM_STEP_TASKS_PER_NODE") or str(ranks)
    try:
        node = int(environ.get("SLURM_NODEID") or 0)
        nodes = int(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
        world = World(rank, local, node, ranks, _tasks_per_node(counts)[node], nodes)
    except (ValueError, IndexError):
        of_nodes = "SLURM_NODEID", "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE"
        names = (*_VARIABLES[:2], size, *of_nodes)
        raise UsageError(
            f"The environment variables {shown(environ, names)} are not valid rank numbers. Unset "
            "or correct them."
        ) from None
    return StartedRank(
        world=world,
        variables=(*_VARIABLES[:2], size),
        master_addr=first_host(environ["SLURM_STEP_NODELIST"]),
        master_port=65536 - _PORTS + (job + _APART * step) % _PORTS,
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


def first_host(nodes: str) -> str:
    """Return the first of SLURM's short form of a list: "n[03-5,9],m1" begins with "n03"."""
    prefix, numbers = re.match(r"([^,\[]*)(?:\[([^,\-\]]*))?", nodes).groups()  # type: ignore[union-attr]
    return f"{prefix}{numbers or ''}"


def resolve(host: str) -> str | None:
    """Ask SLURM for a node's address (NodeAddr); None if it does not answer."""
    try:
        done = subprocess.run(
            ["scontrol", "--oneliner", "show", "node", host],
            capture_output=True,
            text=True,
            timeout=_ANSWER_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bNodeAddr=(\S+)", done.stdout)
    return found[1] if found else None


def _tasks_per_node(text: str) -> list[int]:
    """Parse SLURM's short form: "2(x3),1" is 2, 2, 2, 1."""
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", text)
    return [int(tasks) for tasks, times in found for _ in range(int(times or 1))]
