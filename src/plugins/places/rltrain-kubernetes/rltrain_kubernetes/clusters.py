"""Jobs on Kubernetes, which start one process in each pod: a pod is a node."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from rltrain.clusters import StartedNode, number_or_none, read_numbers, shown
from rltrain.errors import UsageError


def kubeflow(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a TrainJob, or of a PyTorchJob with `nprocPerNode`: PET_... variables.

    These are torchrun's flags. Beside them, WORLD_SIZE may count ranks.
    """
    count = environ.get("PET_NNODES", "")
    if not count or count.rpartition(":")[2] == "1":
        return None
    names = ("PET_NNODES", "PET_NODE_RANK")
    if ":" in count or not environ.get("PET_NODE_RANK"):
        raise UsageError(
            f"{shown(environ, names)}: rltrain cannot tell which node this is. Nodes that number "
            "themselves are torchrun's: torchrun -m rltrain ..."
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
    """
    names = ("WORLD_SIZE", "RANK")
    if environ.get("LOCAL_RANK") or not all(environ.get(name) for name in names):
        return None
    if _is_only_node(environ):  # Then WORLD_SIZE counts ranks.
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


def jaxjob(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a JAXJob, or of a TrainJob for jax, whose names begin with JAX_."""
    prefix = "JAX_" if environ.get("JAX_NUM_PROCESSES") else ""
    names = tuple(prefix + name for name in ("NUM_PROCESSES", "PROCESS_ID"))
    address = prefix + "COORDINATOR_ADDRESS"
    if not environ.get(address) or not any(environ.get(name) for name in names):
        return None
    nodes, node = read_numbers(environ, *names)
    if nodes == 1:
        return None
    host, _, port = environ[address].rpartition(":")
    return StartedNode(
        node_rank=node,
        num_nodes=nodes,
        master_addr=host or port,
        master_port=number_or_none(port if host else environ.get("COORDINATOR_PORT")),
        variables=(*names, address),
    )


def volcano(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a Volcano job with the plugins `env` and `svc`; ModelArts sets the same.

    Each group of pods has a list of its hosts. A group named "master" comes first, the others in
    the order of their names.
    """
    found = re.compile(r"VC_(.+)_HOSTS")
    groups = {match[1]: match[0] for match in map(found.fullmatch, environ) if match}
    if not environ.get("VC_TASK_INDEX") or not groups:
        return None
    (index,) = read_numbers(environ, "VC_TASK_INDEX")
    ordered = sorted(groups, key=lambda name: (name != "MASTER", name))
    lists = {name: environ[groups[name]].split(",") for name in ordered}
    hosts = [host for name in ordered for host in lists[name]]
    if len(hosts) == 1:
        return None
    names = ("VC_TASK_INDEX", *(groups[name] for name in ordered))
    own = environ.get("HOSTNAME", "")
    number = index if len(groups) == 1 else _position(own, hosts)
    if number is None or number >= len(hosts):
        raise UsageError(
            f"{shown(environ, ('HOSTNAME', *names))}: this pod is in none of the lists of hosts. "
            "Say --cluster none, and give --nnodes, --node-rank and --master-addr."
        )
    return StartedNode(
        node_rank=number, num_nodes=len(hosts), master_addr=hosts[0], variables=names
    )


def indexed_job(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of an Indexed Job, or of a JobSet with one of them.

    Kubernetes numbers its pods, and does not say how many there are. A pod's host name is the
    job's name and the pod's number.
    """
    if not environ.get("JOB_COMPLETION_INDEX") or _is_only_node(environ):
        return None
    (node,) = read_numbers(environ, "JOB_COMPLETION_INDEX")
    job, dash, number = environ.get("HOSTNAME", "").rpartition("-")
    return StartedNode(
        node_rank=node,
        num_nodes=None,
        master_addr=f"{job}-0" if dash and number == str(node) else None,
        variables=("JOB_COMPLETION_INDEX",),
    )


def domain_of(host: str) -> str | None:
    """Return another pod's name with the domain of this one, the headless service's.

    The kubelet writes this pod's full name to /etc/hosts.
    """
    _, dot, domain = socket.getfqdn().partition(".")
    return host + dot + domain if dot else None


def _is_only_node(environ: Mapping[str, str]) -> bool:
    """Return whether a TrainJob or a PyTorchJob says that it has one node."""
    return environ.get("PET_NNODES") == "1"


def _position(own: str, hosts: list[str]) -> int | None:
    """Return where a pod's name is in a list of hosts, which have a domain."""
    return next((i for i, host in enumerate(hosts) if host.partition(".")[0] == own), None)
