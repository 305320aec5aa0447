"""Cloud services that start one process on each node. Light, because listing plugins imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rltrain.clusters import StartedNode, number_or_none, read_numbers, shown
from rltrain.data import parse_json
from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import ClusterSpec


def _aws_batch(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a multi-node parallel job of AWS Batch.

    See its user guide, "multi-node parallel job environment variables". The main node need not
    have the number 0, and only the other nodes have its address.
    """
    names = ("AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_MAIN_NODE_INDEX")
    if not environ.get(names[0]):
        return None
    nodes, index, main = read_numbers(environ, *names)
    if nodes <= 1:
        return None
    address = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"
    if index != main and not environ.get(address):
        raise UsageError(
            f"{shown(environ, (*names, address))}: the main node's address is missing. Say "
            "--cluster none, and give --nnodes, --node-rank and --master-addr."
        )
    return StartedNode(
        node_rank=(index - main) % nodes,
        num_nodes=nodes,
        master_addr=environ.get(address),
        variables=names,
    )


def _sagemaker(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a SageMaker training job, by its training toolkit's variables."""
    names = ("SM_HOSTS", "SM_CURRENT_HOST")
    if not environ.get("SM_HOSTS"):
        return None
    hosts, host = _json(environ, "SM_HOSTS"), environ.get("SM_CURRENT_HOST")
    if not isinstance(hosts, list) or host not in hosts:
        raise UsageError(f"{shown(environ, names)}: the host is not in the list of hosts.")
    if len(hosts) == 1:
        return None
    hosts = sorted(hosts)
    return StartedNode(
        node_rank=hosts.index(host),
        num_nodes=len(hosts),
        nproc_per_node=number_or_none(environ.get("SM_NUM_GPUS")) or None,
        master_addr=hosts[0],
        variables=names,
    )


def _skypilot(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a SkyPilot task; see its page on distributed jobs."""
    names = ("SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS")
    addresses = environ.get("SKYPILOT_NODE_IPS", "").split()
    if len(addresses) < 2:
        return None
    (node,) = read_numbers(environ, "SKYPILOT_NODE_RANK")
    return StartedNode(
        node_rank=node,
        num_nodes=len(addresses),
        nproc_per_node=number_or_none(environ.get("SKYPILOT_NUM_GPUS_PER_NODE")) or None,
        master_addr=addresses[0],
        variables=names,
    )


def _vertex(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a Vertex AI custom job; its pools of workers are counted in order."""
    if not environ.get("CLUSTER_SPEC"):
        return None
    spec = _json(environ, "CLUSTER_SPEC")
    try:
        pools = {name: spec["cluster"][name] for name in sorted(spec["cluster"])}
        kind, index = spec["task"]["type"], int(spec["task"]["index"])
        before = sum(len(hosts) for name, hosts in pools.items() if name < kind)
        nodes, first = sum(map(len, pools.values())), next(iter(pools.values()))[0]
        found = before + index, str(first).rpartition(":")
    except (KeyError, IndexError, TypeError, ValueError, StopIteration):
        raise _unreadable(environ, "CLUSTER_SPEC") from None
    if nodes == 1:
        return None
    node, (host, _, port) = found
    return StartedNode(
        node_rank=node,
        num_nodes=nodes,
        master_addr=host or port,
        master_port=number_or_none(port) if host else None,
        variables=("CLUSTER_SPEC",),
    )


def _json(environ: Mapping[str, str], name: str) -> Any:
    try:
        return parse_json(environ[name])
    except ValueError:
        raise _unreadable(environ, name) from None


def _unreadable(environ: Mapping[str, str], name: str) -> UsageError:
    return UsageError(
        f"{name}={environ[name]:.200}: rltrain cannot read it. Correct it, or say --cluster none "
        "and give --nnodes, --node-rank and --master-addr."
    )


def _spec(name: str, find: _Find, summary: str, *variables: str) -> ClusterSpec:
    return ClusterSpec(name=name, order=30, find=find, summary=summary, variables=variables)


_Find = Callable[[Mapping[str, str]], StartedNode | None]
_OF_SAGEMAKER = ("SM_HOSTS", "SM_CURRENT_HOST", "SM_NUM_GPUS")


@hookimpl
def rltrain_provides() -> list[ClusterSpec]:
    """Declare the clusters."""
    return [
        _spec(
            *("aws-batch", _aws_batch, "nodes of a multi-node parallel job of AWS Batch"),
            "AWS_BATCH_JOB_*",
        ),
        _spec("sagemaker", _sagemaker, "nodes of a SageMaker training job", *_OF_SAGEMAKER),
        _spec("skypilot", _skypilot, "nodes of a SkyPilot task", "SKYPILOT_N*"),
        _spec("vertex", _vertex, "nodes of a Vertex AI custom job", "CLUSTER_SPEC"),
    ]
