"""Where a run runs: its backend, its devices, its launcher, and how many ranks there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from rltrain.config import Placement
from rltrain.errors import UsageError, suggest
from rltrain.launch.preflight import preflight
from rltrain.launch.ranks import count_ranks, rank_device, select_gpus
from rltrain.options.checks import flag
from rltrain.options.run import RunOptions
from rltrain.plan.cluster import find_place, join
from rltrain.plugins.registry import Registry
from rltrain.specs import BackendSpec, GradientSyncSpec, LauncherSpec
from rltrain.types import World

__all__ = ["check_shown", "choose_launcher", "of_framework", "place"]

FrameworkSpecT = TypeVar("FrameworkSpecT", GradientSyncSpec, LauncherSpec)


def place(
    requested: RunOptions,
    registry: Registry,
    environ: Mapping[str, str],
    gpus_elsewhere: int | None = None,
) -> tuple[Placement, World | None]:
    """Choose backend, devices and launcher; count the ranks, or find this one's place.

    Args:
        requested: the options.
        registry: the installed plugins.
        environ: the environment variables.
        gpus_elsewhere: the number of GPUs if the run is on another machine; None to count them.

    Returns:
        Where the run runs, and the place of this process: None if ranks are to be started.

    Raises:
        UsageError: an option names what is not there, or two contradict each other.
    """
    named = requested.launcher
    if named is not None and registry.get(LauncherSpec, named).starts_nodes:
        return _on_other_machines(requested, registry), None
    requested = _as_distributed(requested)
    backend, visible = _backend(requested, registry, gpus_elsewhere)
    kind = backend.kind_of_device(requested.device)
    gpus = _gpus(requested, backend, kind, visible)
    if requested.gpu_ids == "all" and len(gpus) > 1:
        requested = dataclasses.replace(requested, distributed=True)
    requested, joined = join(requested, find_place(requested, registry, environ), environ)
    launcher = None
    if requested.distributed or requested.launcher is not None:
        launcher = choose_launcher(requested, backend, registry).name
    placement = _placement(requested, backend.name, kind)
    if requested.virtual_local_rank and (joined or not requested.distributed):
        instead = f"Give it to {requested.cluster}" if joined else "Add --distributed"
        raise UsageError(f"--virtual-local-rank: no ranks are started here. {instead}.")
    if not requested.distributed:
        return placement, World(device=_one_device(requested, kind, gpus, visible))
    _check_distributed(requested)
    shared = kind != backend.device
    if shared or (kind != "cpu" and len(gpus) < visible):
        placement = dataclasses.replace(placement, gpu_ids=gpus)
    instead = _to_share(kind, requested.framework, registry)
    if joined:
        if requested.min_nodes is not None:
            raise UsageError(
                f"--nnodes {requested.nnodes}: {requested.cluster} has started the ranks already. "
                "Leave it out; or start rltrain itself once on each node."
            )
        device = rank_device(kind, joined.local_rank, len(gpus), shared, instead)
        return placement, dataclasses.replace(joined, device=device)
    ranks = count_ranks(requested.nproc_per_node, kind, gpus, shared, instead)
    return dataclasses.replace(placement, nproc_per_node=ranks, launcher=launcher), None


def _on_other_machines(requested: RunOptions, registry: Registry) -> Placement:
    """Place a run whose launcher starts all nodes: this machine's devices do not matter.

    Raises:
        UsageError: the number of ranks is missing, or options contradict each other.
    """
    requested = dataclasses.replace(requested, distributed=True)
    fitting = _fitting(requested, registry)
    wanted = (requested.device or "").partition(":")[0] or None
    on_gpus = requested.num_gpus is not None or wanted not in (None, "cpu")
    able = [spec for spec in fitting if (spec.kind_of_device(wanted) != "cpu") == on_gpus]
    backend = (able or fitting)[0]
    launcher = choose_launcher(requested, backend, registry).name
    kind = backend.kind_of_device(requested.device)
    asked = requested.nproc_per_node if requested.num_gpus is None else requested.num_gpus
    if not isinstance(asked, int):
        raise UsageError(
            f"--launcher {launcher}: say how many ranks each node has: --num-gpus N with a GPU "
            "each, or --nproc-per-node N on the CPU."
        )
    gpus = _gpus(requested, backend, kind, visible=asked)
    _check_distributed(requested)
    ranks = count_ranks(requested.nproc_per_node or asked, kind, gpus, kind != backend.device)
    placement = _placement(requested, backend.name, kind)
    return dataclasses.replace(placement, nproc_per_node=ranks, launcher=launcher)


def check_shown(
    shown: tuple[int, ...] | str | None, placement: Placement, world: World | None
) -> None:
    """Refuse to show ranks that this node does not have.

    Raises:
        UsageError: it does not have one of them.
    """
    ranks = world.local_world_size if world is not None else int(placement.nproc_per_node or 1)
    missing = [rank for rank in shown or () if isinstance(rank, int) and rank >= ranks]
    if missing:
        raise UsageError(
            f"{flag('show_ranks')} {' '.join(map(str, shown or ()))}: this node has {ranks} "
            f"rank{'s' if ranks > 1 else ''}, and no rank {missing[0]}."
        )


def _as_distributed(requested: RunOptions) -> RunOptions:
    """Turn on --distributed if several GPUs are named, as mjlab does.

    Raises:
        UsageError: an option of several ranks was given without it.
    """
    if requested.gpu_ids == "none":
        requested = dataclasses.replace(requested, device="cpu")
    if isinstance(requested.gpu_ids, tuple) and len(requested.gpu_ids) > 1:
        return dataclasses.replace(requested, distributed=True)
    for name in ("nproc_per_node", "num_gpus", "nnodes"):
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


def _placement(requested: RunOptions, backend: str, kind: str) -> Placement:
    """Return the placement of a run whose ranks are not counted yet."""
    settled = {
        "backend": backend,
        "device_kind": kind,
        "gpu_ids": requested.gpu_ids if isinstance(requested.gpu_ids, tuple) else None,
        "launcher": None,
        "nnodes": int(requested.nnodes),
        "min_nodes": requested.min_nodes,
        "node_rank": requested.node_rank or 0,
        "nproc_per_node": None,
    }
    return Placement(**requested.fields_of(Placement) | settled)


def choose_launcher(
    requested: RunOptions, backend: BackendSpec, registry: Registry
) -> LauncherSpec:
    """Return the requested launcher, or the backend's own.

    Raises:
        UsageError: it does not fit the framework, or lacks an option that was given.
    """
    spec = of_framework(requested, registry, LauncherSpec, "launcher", backend.launcher)
    if requested.min_nodes is not None and ("min_nodes" in spec.lacks or spec.starts_nodes):
        raise UsageError(
            f"--nnodes {requested.nnodes}: the launcher {spec.name} needs a fixed number of nodes. "
            "Give one number, or choose a launcher whose nodes may come and go (--launcher)."
        )
    defaults = RunOptions()
    for name in spec.lacks:
        value = getattr(requested, name)
        if value != getattr(defaults, name):
            raise UsageError(
                f"{flag(name)} {value}: the launcher {spec.name} does not have it. Leave it "
                "out, or choose a launcher that has it (--launcher)."
            )
    return spec


def of_framework(
    requested: RunOptions,
    registry: Registry,
    kind: type[FrameworkSpecT],
    option: str,
    usual: str | None,
) -> FrameworkSpecT:
    """Return the requested launcher or gradient sync, or the usual one.

    Raises:
        UsageError: it is not installed, or does not work with the framework.
    """
    framework, name = requested.framework, getattr(requested, option)
    able = [
        spec.name
        for spec in registry.all(kind)
        if framework in spec.frameworks and not _starts_nodes(spec)
    ]
    if name is None:
        # Installing another plugin must not change what a command does.
        name = able[0] if able and usual not in able else usual
    if name is None:
        raise UsageError(f"{flag(option)}: no installed plugin works with {framework}.")
    spec = registry.get(kind, name)
    if framework not in spec.frameworks:
        instead = f" Instead: {flag(option)} {' or '.join(able)}." if able else ""
        raise UsageError(
            f"{flag(option)} {name}: works with {', '.join(spec.frameworks)}, not {framework}."
            f"{instead}"
        )
    return spec


def _starts_nodes(spec: LauncherSpec | GradientSyncSpec) -> bool:
    return isinstance(spec, LauncherSpec) and spec.starts_nodes


def _gpus(requested: RunOptions, backend: BackendSpec, kind: str, visible: int) -> tuple[int, ...]:
    """Return the chosen GPUs; none on the CPU, where choosing some is refused."""
    if kind != "cpu":
        return select_gpus(requested.gpu_ids, requested.num_gpus, visible)
    for name in ("gpu_ids", "num_gpus"):
        if getattr(requested, name) not in (None, "none"):
            raise UsageError(
                f"{flag(name)}: the run is on the CPU, by backend {backend.name}. Leave it out, "
                "or for GPUs leave out --backend and --device."
            )
    return ()


def _fitting(requested: RunOptions, registry: Registry) -> list[BackendSpec]:
    """Return the backends that fit framework and device: those for GPUs first.

    Raises:
        UsageError: there are none.
    """
    kind = (requested.device or "").partition(":")[0] or None
    if requested.backend is not None:
        candidates = [registry.get(BackendSpec, requested.backend)]
    else:
        candidates = registry.all(BackendSpec)
        _check_some(requested.framework, candidates, registry)
    of_framework = [spec for spec in candidates if spec.framework == requested.framework]
    fitting = [spec for spec in of_framework if kind in (None, spec.device)]
    if requested.backend is not None:  # Never by default.
        fitting += [spec for spec in of_framework if kind in spec.shares]
    if not fitting:
        wanted = f"{requested.framework}" + (f" on {kind}" if kind else "")
        have = "; ".join(f"{spec.name}: {spec.supports()}" for spec in registry.all(BackendSpec))
        what = f"--backend {requested.backend}" if requested.backend else "No backend"
        raise UsageError(f"{what}: does not run {wanted}. Installed: {have}.")
    # An accelerator if there is one, else the CPU. Of two backends for the same device, the usual
    # one: installing another must not change what a command does.
    return sorted(fitting, key=lambda spec: (spec.device == "cpu", not spec.usual))


def _backend(
    requested: RunOptions, registry: Registry, gpus_elsewhere: int | None
) -> tuple[BackendSpec, int]:
    """Return the backend and how many of its devices are visible (0 for the CPU)."""
    kind = (requested.device or "").partition(":")[0] or None
    fitting = _fitting(requested, registry)
    wants_gpu = requested.num_gpus is not None or isinstance(requested.gpu_ids, tuple)
    starts = requested.distributed or requested.gpu_ids == "all"
    for spec in fitting:
        if spec.kind_of_device(kind) == "cpu":
            return spec, 0
        visible = gpus_elsewhere
        if visible is None:
            visible = preflight(spec.count_devices, in_child=starts) if spec.count_devices else 0
        if visible or wants_gpu or requested.gpu_ids == "all":
            return spec, visible
    by_backend = requested.backend if fitting[-1].kind_of_device(None) != "cpu" else None
    what = f"--backend {by_backend}" if by_backend else f"--device {requested.device}"
    on_cpu = [
        spec.name
        for spec in registry.all(BackendSpec)
        if spec.usual and spec.framework == requested.framework and spec.device == "cpu"
    ]
    raise UsageError(
        f"{what}: needs a GPU, and no GPU is visible on this machine. "
        f"On the CPU: {f'--backend {on_cpu[0]}' if by_backend and on_cpu else '--device cpu'}."
    )


def _to_share(kind: str, framework: str, registry: Registry) -> str:
    """Say how ranks can share devices of a kind, if they can."""
    able = [spec for spec in registry.all(BackendSpec) if spec.framework == framework]
    names = [spec.name for spec in able if kind in spec.shares]
    return (
        f" To debug ranks that share GPUs: --backend {names[0]} --device {kind}." if names else ""
    )


def _check_some(framework: str, candidates: list[BackendSpec], registry: Registry) -> None:
    """Say what to install if no installed backend runs a framework.

    Raises:
        UsageError: none does.
    """
    ready = sorted({spec.framework for spec in candidates})
    if framework in ready:
        return
    raise UsageError(
        f"--framework {framework}: no installed backend runs it.{suggest(framework, ready)} "
        f"Installed: {', '.join(ready) or 'none'}.{registry.not_ready()} If there is a plugin: "
        f"pip install 'rltrain-{framework}[library]'."
    )


def _one_device(requested: RunOptions, kind: str, gpus: tuple[int, ...], visible: int) -> str:
    """Return the device of a run that is one process."""
    if kind == "cpu":
        return "cpu"
    index = (requested.device or "").partition(":")[2]
    if not index:
        return f"{kind}:{gpus[0]}"
    if not index.isdigit() or int(index) >= visible:
        raise UsageError(f"--device {requested.device}: {visible} are visible, from 0.")
    return f"{kind}:{int(index)}"
