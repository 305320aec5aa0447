"""Jobs on Kubernetes, which start one process in each pod: a pod is a node."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

from rltrain.clusters import StartedNode, number_or_none, read_numbers, shown
from rltrain.errors import UsageError
from rltrain.specs import ClusterSpec


def _counted(
    environ: Mapping[str, str],
    *names: str,
    ranks: str = "",
    host: str | None = None,
    port: str | None = None,
) -> StartedNode | None:
    """Return a node by the variables with their count and its number; None if it is the only one.

    `ranks` is the variable with the ranks of each node.
    """
    nodes, node = read_numbers(environ, *names)
    if nodes == 1:
        return None
    return StartedNode(
        node_rank=node,
        num_nodes=nodes,
        nproc_per_node=number_or_none(environ.get(ranks)),
        master_addr=host,
        master_port=number_or_none(port),
        variables=names,
    )


def _kubeflow(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a TrainJob, or of a PyTorchJob with `nprocPerNode`: PET_... variables.

    These are torchrun's flags. With them, WORLD_SIZE may count ranks.
    """
    count = environ.get("PET_NNODES", "")
    if not count or count.rpartition(":")[2] == "1":
        return None
    names = ("PET_NNODES", "PET_NODE_RANK")
    if ":" in count or not environ.get("PET_NODE_RANK"):
        raise UsageError(
            f"{shown(environ, names)}: it is unknown which node this is. Nodes that number "
            "themselves are torchrun's: torchrun -m rltrain ..."
        )
    host = environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR")
    port = environ.get("PET_MASTER_PORT") or environ.get("MASTER_PORT")
    return _counted(environ, *names, ranks="PET_NPROC_PER_NODE", host=host, port=port)


def _pytorchjob(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node that WORLD_SIZE and RANK count where LOCAL_RANK is not set.

    So do PyTorchJob, Volcano and PAI-DLC. With one node, WORLD_SIZE counts ranks.
    """
    names = ("WORLD_SIZE", "RANK")
    if environ.get("LOCAL_RANK") or not all(map(environ.get, names)) or _is_only_node(environ):
        return None
    host, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    return _counted(environ, *names, ranks="NPROC_PER_NODE", host=host, port=port)


def _jaxjob(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a JAXJob, or of a TrainJob for jax, whose names begin with JAX_."""
    prefix = "JAX_" if environ.get("JAX_NUM_PROCESSES") else ""
    names = (f"{prefix}NUM_PROCESSES", f"{prefix}PROCESS_ID")
    address = environ.get(f"{prefix}COORDINATOR_ADDRESS")
    if not address or not any(map(environ.get, names)):
        return None
    host, _, port = address.rpartition(":")
    port = port if host else environ.get("COORDINATOR_PORT", "")
    return _counted(environ, *names, host=host or address, port=port)


def _volcano(environ: Mapping[str, str]) -> StartedNode | None:
    """Return the node of a Volcano job with the plugins `env` and `svc`; ModelArts sets the same.

    Each group of pods has a list of its hosts. A group named "master" comes first, the others in
    the order of their names.
    """
    found = filter(None, (re.fullmatch(r"VC_(.+)_HOSTS", name) for name in environ))
    groups = [each[0] for each in sorted(found, key=lambda each: (each[1] != "MASTER", each[1]))]
    hosts = [host for name in groups for host in environ[name].split(",")]
    if not environ.get("VC_TASK_INDEX") or len(hosts) < 2:
        return None
    names = ("VC_TASK_INDEX", *groups)
    (number,) = read_numbers(environ, "VC_TASK_INDEX")
    if len(groups) > 1:  # It counts the pods of one group. The hosts have a domain.
        own = [host.partition(".")[0] == environ.get("HOSTNAME") for host in hosts]
        number = own.index(True) if any(own) else len(hosts)
    if number >= len(hosts):
        raise UsageError(
            f"{shown(environ, ('HOSTNAME', *names))}: this pod is in none of the lists of hosts. "
            "Say --cluster none, and give --nnodes, --node-rank and --master-addr."
        )
    return StartedNode(
        node_rank=number, num_nodes=len(hosts), master_addr=hosts[0], variables=names
    )


def _indexed_job(environ: Mapping[str, str]) -> StartedNode | None:
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


def _domain_of(host: str) -> str | None:
    """Return another pod's name with the domain of this one, the headless service's.

    The kubelet writes this pod's full name to /etc/hosts.
    """
    _, dot, domain = socket.getfqdn().partition(".")
    return host + dot + domain if dot else None


def _is_only_node(environ: Mapping[str, str]) -> bool:
    """Return whether a TrainJob or a PyTorchJob says that it has one node."""
    return environ.get("PET_NNODES") == "1"


def _spec(name: str, order: int, find: _Find, summary: str, *of: str, **more: Any) -> ClusterSpec:
    return ClusterSpec(name=name, order=order, find=find, summary=summary, variables=of, **more)


_Find = Callable[[Mapping[str, str]], StartedNode | None]
_OF_PYTORCHJOB = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "NPROC_PER_NODE", "MASTER_*")
_OF_JAXJOB = (
    *("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
    *("NUM_PROCESSES", "PROCESS_ID", "COORDINATOR_ADDRESS", "COORDINATOR_PORT"),
)

CLUSTERS = (
    _spec("kubeflow", 30, _kubeflow, "nodes of a TrainJob or PyTorchJob with PET_NNODES", "PET_*"),
    _spec(
        *("pytorchjob", 40, _pytorchjob),
        "nodes of PyTorchJob, Volcano, PAI-DLC: WORLD_SIZE and RANK count them",
        *_OF_PYTORCHJOB,
    ),
    _spec("jaxjob", 40, _jaxjob, "nodes of a JAXJob, or of a TrainJob for jax", *_OF_JAXJOB),
    _spec("volcano", 50, _volcano, "nodes of a Volcano job without its plugin for torch", "VC_*"),
    _spec(
        *("indexed-job", 60, _indexed_job, "nodes of an Indexed Job or a JobSet of Kubernetes"),
        "JOB_COMPLETION_INDEX",
        resolve=_domain_of,
    ),
)
