"""Where a run runs: its backend, its devices, its launcher, and how many ranks there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeVar

from rltrain.config import Placement
from rltrain.config.checks import flag
from rltrain.config.declare import Scope, scoped
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.placement.backend import choose_backend, how_to_share, may_share
from rltrain.placement.cluster import find_cluster, join
from rltrain.plugins.manager import usual_of
from rltrain.plugins.registry import Registry
from rltrain.ranks.devices import count_ranks, rank_device, select_gpus
from rltrain.specs import BackendSpec, GradientSyncSpec, LauncherSpec
from rltrain.types import World

FrameworkSpecT = TypeVar("FrameworkSpecT", GradientSyncSpec, LauncherSpec)


def place_run(
    requested: RunOptions,
    registry: Registry,
    environ: Mapping[str, str],
    gpus_elsewhere: int | None = None,
) -> tuple[Placement, World | None]:
    """Choose backend, devices and launcher; count the ranks, or find this rank.

    Args:
        requested: the options.
        registry: the installed plugins.
        environ: the environment variables.
        gpus_elsewhere: the number of GPUs if the run is on another machine; None to count them.

    Returns:
        Where the run runs, and the rank that this process is; None if ranks are to be started.

    Raises:
        UsageError: an option names what is not there, or two contradict each other.
    """
    named = requested.launcher
    elsewhere = named is not None and registry.get(LauncherSpec, named).starts_nodes
    if elsewhere:
        requested, gpus_elsewhere = _on_other_machines(requested)
    requested = _as_distributed(requested)
    backend, visible = choose_backend(requested, registry, gpus_elsewhere)
    kind = backend.kind_of_device(requested.device)
    gpus = _gpus(requested, backend, kind, visible)
    if requested.gpu_ids == "all" and len(gpus) > 1:
        requested = dataclasses.replace(requested, distributed=True)
    found = None if elsewhere else find_cluster(requested, registry, environ)
    requested, joined = join(requested, found, environ, backend.needs_master)
    launcher = None
    if requested.distributed or requested.launcher is not None:
        launcher = choose_launcher(requested, backend, registry).name
    placement = unplaced(requested, backend.name, kind)
    if requested.max_restarts and (joined or not requested.distributed):
        instead = f"Give it to {requested.cluster}" if joined else "Add --distributed"
        raise UsageError(f"--max-restarts: no ranks are started here. {instead}.")
    if not requested.distributed:
        return placement, World(device=_one_device(requested, kind, gpus, visible))
    _check_distributed(requested)
    ranks_here = joined.local_world_size if joined else requested.nproc_per_node
    shared = kind != backend.device
    if gpus_elsewhere is None:
        shared = shared or may_share(requested, backend, ranks_here, gpus)
    if shared or (kind != "cpu" and len(gpus) < visible):
        placement = dataclasses.replace(placement, gpu_ids=gpus)
    instead = how_to_share(kind, requested.framework, registry)
    if joined:
        device = rank_device(kind, joined.local_rank, len(gpus), shared, instead)
        return placement, dataclasses.replace(joined, device=device)
    ranks = count_ranks(requested.nproc_per_node, kind, gpus, shared, instead)
    return dataclasses.replace(placement, nproc_per_node=ranks, launcher=launcher), None


def _on_other_machines(requested: RunOptions) -> tuple[RunOptions, int]:
    """Return the options of a run whose launcher starts all nodes, and the GPUs that each needs."""
    if isinstance(requested.gpu_ids, tuple) or requested.gpu_ids == "all":
        raise UsageError(
            f"--gpu-ids: the launcher {requested.launcher} starts the ranks on other machines. "
            "Instead: --nproc-per-node N --device cuda, for each node."
        )
    ranks = requested.nproc_per_node
    if not isinstance(ranks, int):
        raise UsageError(
            f"--launcher {requested.launcher}: say how many ranks each node has: --nproc-per-node "
            "N, and with a GPU each --device cuda."
        )
    # The backend may be one for the CPU, which needs none.
    on_gpus = requested.device is not None or requested.backend is not None
    return dataclasses.replace(requested, distributed=True), ranks if on_gpus else 0


def check_shown(
    shown: tuple[int, ...] | str | None, placement: Placement, world: World | None
) -> None:
    """Refuse to show ranks that this node does not have."""
    ranks = world.local_world_size if world is not None else int(placement.nproc_per_node or 1)
    missing = [rank for rank in shown or () if isinstance(rank, int) and rank >= ranks]
    if missing:
        raise UsageError(
            f"{flag('show_ranks')} {' '.join(map(str, shown or ()))}: this node has {ranks} "
            f"rank{'s' if ranks > 1 else ''}, and no rank {missing[0]}."
        )


def _as_distributed(requested: RunOptions) -> RunOptions:
    """Turn on --distributed if several GPUs are named, as mjlab does."""
    if requested.gpu_ids == "none":
        requested = dataclasses.replace(requested, device="cpu")
    if isinstance(requested.gpu_ids, tuple) and len(requested.gpu_ids) > 1:
        return dataclasses.replace(requested, distributed=True)
    for name in ("nproc_per_node", "nnodes"):
        if not requested.distributed and getattr(requested, name) not in (None, 1):
            raise UsageError(f"{flag(name)} {getattr(requested, name)}: add --distributed.")
    return requested


def _check_distributed(requested: RunOptions) -> None:
    if ":" in (requested.device or ""):
        raise UsageError(
            f"--device {requested.device}: each rank of a distributed run has its own device. "
            "Choose them with --gpu-ids."
        )
    if requested.node_rank is not None and requested.node_rank >= requested.nnodes:
        raise UsageError(
            f"--node-rank {requested.node_rank}: must be below --nnodes {requested.nnodes}."
        )


def unplaced(requested: RunOptions, backend: str, kind: str) -> Placement:
    """Return the placement of a run whose ranks are not counted yet."""
    settled = {
        "backend": backend,
        "device_kind": kind,
        "gpu_ids": requested.gpu_ids if isinstance(requested.gpu_ids, tuple) else None,
        "launcher": None,
        "node_rank": requested.node_rank or 0,
        "nproc_per_node": None,
    }
    return Placement(**requested.shared | settled)


def choose_launcher(
    requested: RunOptions, backend: BackendSpec, registry: Registry
) -> LauncherSpec:
    """Return the requested launcher, or the backend's own."""
    spec = of_framework(requested, registry, LauncherSpec, "launcher", backend.name)
    defaults = RunOptions()
    for name in (
        *spec.unsupported,
        *(scoped(RunOptions, Scope.MEETING) if spec.starts_nodes else ()),
    ):
        value = getattr(requested, name)
        if name == "max_restarts" and requested.nnodes == 1:
            continue  # On one node rltrain starts all launchers' ranks again.
        if value != getattr(defaults, name):
            several = " for several nodes" if name == "max_restarts" else ""
            raise UsageError(
                f"{flag(name)} {value}: the launcher {spec.name} does not have it{several}. Leave "
                "it out, or choose a launcher that has it (--launcher)."
            )
    return spec


def of_framework(
    requested: RunOptions,
    registry: Registry,
    kind: type[FrameworkSpecT],
    option: Literal["launcher", "grad_sync"],
    backend: str,
) -> FrameworkSpecT:
    """Return the requested launcher or gradient sync, or the usual one.

    Installing another plugin must not change what a command does: the usual one is declared.
    """
    framework = requested.framework
    able = " or ".join(
        spec.name
        for spec in registry.all(kind)
        if framework in (spec.frameworks or (framework,))
        and not (isinstance(spec, LauncherSpec) and spec.starts_nodes)
    )
    name = getattr(requested, option) or usual_of(registry, framework, option, backend)
    if name is None and able:
        raise UsageError(
            f"{flag(option)}: neither the backend {backend} nor a usual one of {framework} names "
            f"its own. Give {flag(option)} {able}."
        )
    if name is None:
        raise UsageError(f"{flag(option)}: no installed plugin works with {framework}.")
    spec = registry.get(kind, name)
    if spec.frameworks and framework not in spec.frameworks:
        instead = f" Instead: {flag(option)} {able}." if able else ""
        raise UsageError(
            f"{flag(option)} {name}: works with {', '.join(spec.frameworks)}, not {framework}."
            f"{instead}"
        )
    return spec


def _gpus(requested: RunOptions, backend: BackendSpec, kind: str, visible: int) -> tuple[int, ...]:
    """Return the chosen GPUs; none on the CPU, where choosing some is refused."""
    if kind != "cpu":
        return select_gpus(requested.gpu_ids, visible)
    if requested.gpu_ids not in (None, "none"):
        raise UsageError(
            f"--gpu-ids: the run is on the CPU, by backend {backend.name}. Leave it out, or for "
            "GPUs leave out --backend and --device."
        )
    return ()


def _one_device(requested: RunOptions, kind: str, gpus: tuple[int, ...], visible: int) -> str:
    """Return the device of a run that is one process."""
    if kind == "cpu":
        return "cpu"
    index = (requested.device or "").partition(":")[2]
    if not index:
        return f"{kind}:{gpus[0]}"
    if not index.isdigit() or int(index) >= visible:
        raise UsageError(f"--device {requested.device}: give {kind}:0 to {kind}:{visible - 1}.")
    return f"{kind}:{int(index)}"
