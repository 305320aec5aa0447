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
    """Return the cluster that started this process as one of several; None if none did."""
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
        for a, b in itertools.pairwise(detected):
            if not _agree(a[1], b[1]):
                raise UsageError(
                    f"{_shown(a, environ)} and {_shown(b, environ)} contradict each other. Choose "
                    f"one of them: --cluster {a[0].name} or --cluster {b[0].name}."
                )
        if detected:
            # The one that knows where they meet.
            return min(detected, key=lambda found: found[1].master_addr is None)
    if requested.distributed and not _numbered(requested):
        _check_read(registry, environ)
    return None


def _shown(found: Found, environ: Mapping[str, str]) -> str:
    """Return the name of a cluster with the variables that gave this process' place."""
    return f"{found[0].name} ({shown(environ, found[1].variables)})"


def _check_read(registry: Registry, environ: Mapping[str, str]) -> None:
    """Refuse to train alone where a cluster has set variables that nothing here reads."""
    installed = {record.distribution for record in registry.records}
    said = [name for name, one in ours.NODES.items() if environ.get(name) not in ("", None, one)]
    if said and ours.CLUSTERS not in installed:
        raise UsageError(
            f"{shown(environ, said[:1])}: there may be several nodes, and {ours.CLUSTERS}, "
            f"which reads it, is not installed. pip install '{ours.CLUSTERS}'; or say --cluster "
            "none: then this node trains alone."
        )


def join(
    requested: RunOptions,
    found: Found | None,
    environ: Mapping[str, str],
    needs_master: bool = True,
) -> tuple[RunOptions, World | None]:
    """Return the options with what the cluster adds, and this rank if it joins.

    Flags come first: a task that has to start ranks is a node, and nodes that the user has
    counted and numbered are believed.
    """
    if found is None:
        return requested, None
    spec, started = found
    if not requested.distributed:
        if isinstance(started, StartedRank) and started.world.world_size > 1:
            raise UsageError(
                f"{_shown(found, environ)} started {started.world.world_size} ranks, but "
                f"--distributed was not given. Add --distributed, {_ALONE}"
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
        requested = _with_master(requested, (spec, started), environ)
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
                    f"{_shown((spec, started), environ)} started {started.world.world_size} ranks "
                    f"for {' or '.join(spec.frameworks)}, and the run is on "
                    f"{requested.framework}. Add --framework {spec.frameworks[0]}, {_ALONE}"
                )
            continue
        yield spec, started


def _agree(a: StartedRank | StartedNode, b: StartedRank | StartedNode) -> bool:
    if None not in (a.master_addr, b.master_addr) and a.master_addr != b.master_addr:
        return False
    places = {
        (each.world.rank, each.world.world_size, "ranks")
        if isinstance(each, StartedRank)
        else (each.node_rank, each.num_nodes, "nodes")
        for each in (a, b)
    }
    return len(places) == 1


def _numbered(requested: RunOptions) -> bool:
    """Whether the user has numbered the nodes."""
    return requested.nnodes > 1 and requested.node_rank is not None


def _as_node(spec: ClusterSpec, started: StartedRank, environ: Mapping[str, str]) -> StartedNode:
    """Return the node of the only task on it, which starts the node's ranks."""
    world, of_started = started.world, vars(started).copy()
    if world.local_world_size > 1 or world.num_nodes != world.world_size:
        raise UsageError(
            f"{_shown((spec, started), environ)} started several tasks on this node, and each "
            "would start ranks. Start one task a node; or leave out --nnodes, --nproc-per-node and "
            f"--launcher: then the tasks are the ranks; {_ALONE}"
        )
    del of_started["world"]
    return StartedNode(node_rank=world.node_rank, num_nodes=world.num_nodes, **of_started)


def _as_one_of_the_nodes(
    requested: RunOptions, spec: ClusterSpec, started: StartedNode, environ: Mapping[str, str]
) -> RunOptions:
    found, nodes = (spec, started), started.num_nodes or requested.nnodes
    if nodes == 1:
        raise UsageError(
            f"{_shown(found, environ)} does not say how many nodes there are. Add --nnodes N, "
            f"{_ALONE}"
        )
    if requested.nnodes not in (1, nodes):
        raise UsageError(
            f"--nnodes {requested.nnodes}: {_shown(found, environ)} counts {nodes} nodes. Leave it "
            "out; or give --node-rank too."
        )
    node, ranks = requested.node_rank, requested.nproc_per_node
    return dataclasses.replace(
        _with_master(requested, found, environ),
        cluster=spec.name,
        nnodes=nodes,
        node_rank=started.node_rank if node is None else node,
        nproc_per_node=started.nproc_per_node if ranks is None else ranks,
    )


def _with_master(requested: RunOptions, found: Found, environ: Mapping[str, str]) -> RunOptions:
    """Take the master's address from the flags, from MASTER_ADDR, or from the cluster."""
    spec, started = found
    usual = RunOptions()
    if requested.master_addr != usual.master_addr:
        return requested
    host = environ.get("MASTER_ADDR") or None
    if host is None and (host := started.master_addr) is not None and spec.resolve is not None:
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            host = spec.resolve(host) or host
    if host is None and isinstance(started, StartedNode) and started.node_rank == 0:
        host = own_address()
    if host is None:
        raise UsageError(
            f"{_shown(found, environ)} does not say on which host rank 0 is. Add --master-addr "
            "HOST, or set MASTER_ADDR, the same for every rank."
        )
    port = read_port(environ, "MASTER_PORT") or started.master_port
    if requested.master_port != usual.master_port or port is None:
        port = requested.master_port
    return dataclasses.replace(requested, master_addr=host, master_port=port)
