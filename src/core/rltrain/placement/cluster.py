"""What has started this process, and what follows from it for the run."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import socket
from collections.abc import Iterable, Iterator, Mapping

from rltrain.clusters import StartedNode, StartedRank, read_port, shown
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.plugins import ours
from rltrain.plugins.registry import Registry
from rltrain.ranks.machine import own_address
from rltrain.specs import ClusterSpec
from rltrain.types import World

Found = tuple[ClusterSpec, StartedRank | StartedNode]
"""A cluster, and what it started this process as."""

_ALONE = "or say --cluster none: then each trains alone."


def find_cluster(
    requested: RunOptions, registry: Registry, environ: Mapping[str, str]
) -> Found | None:
    """Return the cluster that started this process as one of several; None if none did.

    Raises:
        UsageError: two clusters disagree, variables are incomplete, or the ranks are of another
            framework.
    """
    if requested.cluster == "none":
        return None
    if requested.cluster is not None:
        spec = registry.get(ClusterSpec, requested.cluster)
        started = spec.find(environ)
        if started is None:
            raise UsageError(
                f"--cluster {spec.name}: its variables ({', '.join(spec.variables)}) do not say "
                "that it started this process as one of several. Leave it out."
            )
        return spec, started
    specs = sorted(registry.all(ClusterSpec), key=lambda each: each.order)
    if requested.distributed and _numbered(requested):
        specs = [spec for spec in specs if spec.order == 0]
    for _, row in itertools.groupby(specs, key=lambda each: each.order):
        detected = list(_detected(requested, row, registry, environ))
        for (a, first), (b, second) in itertools.pairwise(detected):
            if not _agree(first, second):
                raise UsageError(
                    f"{a.name} ({shown(environ, first.variables)}) and {b.name} "
                    f"({shown(environ, second.variables)}) contradict each other. Choose one of "
                    f"them: --cluster {a.name} or --cluster {b.name}."
                )
        if detected:
            # The one that knows where they meet.
            return min(detected, key=lambda found: found[1].master_addr is None)
    if requested.distributed and not _numbered(requested):
        _check_read(registry, environ)
    return None


def _check_read(registry: Registry, environ: Mapping[str, str]) -> None:
    """Refuse to train alone where a cluster has set variables that nothing here reads."""
    installed = {record.distribution for record in registry.records}
    said = [name for name, one in ours.NODES.items() if environ.get(name) not in ("", None, one)]
    if said and ours.CLUSTERS not in installed:
        raise UsageError(
            f"{shown(environ, tuple(said[:1]))}: there may be several nodes, and {ours.CLUSTERS}, "
            f"which reads it, is not installed. {ours.install(ours.CLUSTERS)}; or say --cluster "
            "none: then this node trains alone."
        )


def join(
    requested: RunOptions,
    found: Found | None,
    environ: Mapping[str, str],
    needs_master: bool = True,
) -> tuple[RunOptions, World | None]:
    """Return the options with what the cluster adds, and this rank if it joins.

    Flags come first: a task that is told to start ranks is a node, and nodes that the user has
    counted and numbered are believed.
    """
    if found is None:
        return requested, None
    spec, started = found
    if not requested.distributed:
        if isinstance(started, StartedRank) and started.world.world_size > 1:
            raise UsageError(
                f"{spec.name} started {started.world.world_size} ranks "
                f"({shown(environ, started.variables)}), but --distributed was not given. Add "
                f"--distributed, {_ALONE}"
            )
        return requested, None
    if spec.order > 0 and _numbered(requested):
        return requested, None
    starts = requested.nnodes > 1 or bool(requested.launcher or requested.nproc_per_node)
    if isinstance(started, StartedRank) and spec.order > 0 and starts:
        started = _as_node(spec, started, environ)
    if isinstance(started, StartedNode):
        return _as_one_of_the_nodes(requested, spec, started, environ), None
    if needs_master and (spec.order > 0 or started.master_addr is not None):
        requested = _with_master(requested, spec, started, environ)
    return dataclasses.replace(requested, cluster=spec.name), started.world


def _detected(
    requested: RunOptions,
    specs: Iterable[ClusterSpec],
    registry: Registry,
    environ: Mapping[str, str],
) -> Iterator[Found]:
    """Yield what each cluster finds. Where its variables are set, one that fails is an error."""
    specs = list(specs)
    set_here = [x.name for x in specs if any(fnmatch.filter(environ, y) for y in x.variables)]
    found: Iterator[Found] = registry.ask(specs, lambda spec: spec.find(environ), set_here)
    for spec, started in found:
        if spec.frameworks and requested.framework not in spec.frameworks:
            if isinstance(started, StartedRank) and started.world.world_size > 1:
                raise UsageError(
                    f"{spec.name} started {started.world.world_size} ranks "
                    f"({shown(environ, started.variables)}) for {' or '.join(spec.frameworks)}, "
                    f"and the run is on {requested.framework}. Add --framework "
                    f"{spec.frameworks[0]}, {_ALONE}"
                )
            continue
        yield spec, started


def _agree(a: StartedRank | StartedNode, b: StartedRank | StartedNode) -> bool:
    if None not in (a.master_addr, b.master_addr) and a.master_addr != b.master_addr:
        return False
    if isinstance(a, StartedRank) and isinstance(b, StartedRank):
        return (a.world.rank, a.world.world_size) == (b.world.rank, b.world.world_size)
    if isinstance(a, StartedNode) and isinstance(b, StartedNode):
        return (a.node_rank, a.num_nodes) == (b.node_rank, b.num_nodes)
    return False


def _numbered(requested: RunOptions) -> bool:
    """Whether the user has numbered the nodes."""
    return requested.nnodes > 1 and requested.node_rank is not None


def _as_node(spec: ClusterSpec, started: StartedRank, environ: Mapping[str, str]) -> StartedNode:
    """Return the node of the only task on it, which starts the node's ranks."""
    world = started.world
    if world.local_world_size > 1 or world.num_nodes != world.world_size:
        raise UsageError(
            f"{spec.name} started several tasks on this node "
            f"({shown(environ, started.variables)}), and each is told to start ranks. Start one "
            "task a node; or leave out --nnodes, --nproc-per-node and --launcher: then the tasks "
            f"are the ranks; {_ALONE}"
        )
    return StartedNode(
        node_rank=world.node_rank,
        num_nodes=world.num_nodes,
        variables=started.variables,
        master_addr=started.master_addr,
        master_port=started.master_port,
    )


def _resolved(spec: ClusterSpec, host: str | None) -> str | None:
    """Return a host that this machine can resolve, if the cluster knows its address."""
    if host is None or spec.resolve is None:
        return host
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return spec.resolve(host) or host
    return host


def _as_one_of_the_nodes(
    requested: RunOptions, spec: ClusterSpec, started: StartedNode, environ: Mapping[str, str]
) -> RunOptions:
    nodes = started.num_nodes or requested.nnodes
    if nodes == 1:
        raise UsageError(
            f"{spec.name} ({shown(environ, started.variables)}) does not say how many nodes there "
            f"are. Add --nnodes N, {_ALONE}"
        )
    if requested.nnodes not in (1, nodes):
        raise UsageError(
            f"--nnodes {requested.nnodes}: {spec.name} counts {nodes} nodes "
            f"({shown(environ, started.variables)}). Leave it out; or give --node-rank too."
        )
    return dataclasses.replace(
        _with_master(requested, spec, started, environ),
        cluster=spec.name,
        nnodes=nodes,
        node_rank=started.node_rank if requested.node_rank is None else requested.node_rank,
        nproc_per_node=requested.nproc_per_node
        if requested.nproc_per_node is not None
        else started.nproc_per_node,
    )


def _with_master(
    requested: RunOptions,
    spec: ClusterSpec,
    started: StartedRank | StartedNode,
    environ: Mapping[str, str],
) -> RunOptions:
    """Take the master's address from the flags, from MASTER_ADDR, or from the cluster."""
    usual = RunOptions()
    if requested.master_addr != usual.master_addr:
        return requested
    host = environ.get("MASTER_ADDR") or _resolved(spec, started.master_addr)
    if host is None and isinstance(started, StartedNode) and started.node_rank == 0:
        host = own_address()
    if host is None:
        raise UsageError(
            f"{spec.name} ({shown(environ, started.variables)}) does not say on which host rank 0 "
            "is. Add --master-addr HOST, or set MASTER_ADDR, the same for every rank."
        )
    port = read_port(environ, "MASTER_PORT") or started.master_port
    if requested.master_port != usual.master_port or port is None:
        port = requested.master_port
    return dataclasses.replace(requested, master_addr=host, master_port=port)
