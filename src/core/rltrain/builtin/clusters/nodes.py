"""Clusters that start one process on each node, and count nodes."""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.clusters import StartedNode, number_or_none, read_numbers, shown
from rltrain.errors import UsageError

__all__ = ["counted", "kubeflow"]


def kubeflow(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a TrainJob, or of a PyTorchJob with `nprocPerNode`: PET_... variables.

    These are torchrun's flags. Beside them, WORLD_SIZE may count ranks.

    Raises:
        UsageError: the number of nodes is a range, or this node's number is missing.
    """
    count = environ.get("PET_NNODES", "")
    if not count or count.rpartition(":")[2] == "1":
        return None
    names = ("PET_NNODES", "PET_NODE_RANK")
    if ":" in count or not environ.get("PET_NODE_RANK"):
        endpoint = environ.get("PET_RDZV_ENDPOINT", "HOST_OF_NODE_0:29400")
        raise UsageError(
            f"{shown(environ, names)}: rltrain cannot tell which node this is. For nodes that "
            "number themselves add --nnodes N --rdzv-backend c10d --rdzv-endpoint "
            f"{endpoint} --rdzv-id {environ.get('PET_RDZV_ID', 'NAME')}; or let torchrun start the "
            "ranks: torchrun -m rltrain ..."
        )
    nodes, node = read_numbers(environ, *names)
    return StartedNode(
        node_rank=node,
        num_nodes=nodes,
        nproc_per_node=number_or_none(environ.get("PET_NPROC_PER_NODE")),
        master_addr=environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR"),
        master_port=number_or_none(environ.get("PET_MASTER_PORT") or environ.get("MASTER_PORT")),
        variables=names,
    )


def counted(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node that WORLD_SIZE and RANK count where LOCAL_RANK is not set.

    So do PyTorchJob, Volcano and PAI-DLC.

    Raises:
        UsageError: they are not numbers.
    """
    names = ("WORLD_SIZE", "RANK")
    if environ.get("LOCAL_RANK") or not all(environ.get(name) for name in names):
        return None
    nodes, node = read_numbers(environ, *names)
    if nodes == 1:
        return None
    return StartedNode(
        node_rank=node,
        num_nodes=nodes,
        nproc_per_node=number_or_none(environ.get("NPROC_PER_NODE")),
        master_addr=environ.get("MASTER_ADDR"),
        master_port=number_or_none(environ.get("MASTER_PORT")),
        variables=names,
    )
