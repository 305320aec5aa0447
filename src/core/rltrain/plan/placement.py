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

__all__ = ["choose_launcher", "of_framework", "place"]

FrameworkSpecT = TypeVar("FrameworkSpecT", GradientSyncSpec, LauncherSpec)


def place(
    asked: RunOptions, registry: Registry, environ: Mapping[str, str]
) -> tuple[Placement, World | None]:
    """Choose backend, devices and launcher; count the ranks, or find this one's place.

    Returns:
        Where the run runs, and the place of this process: None if ranks are to be started.

    Raises:
        UsageError: what was asked for is not there, or contradicts itself.
    """
    if asked.gpu_ids == "none":
        asked = dataclasses.replace(asked, device="cpu")
    several = isinstance(asked.gpu_ids, tuple) and len(asked.gpu_ids) > 1
    if several and not asked.distributed:  # As with mjlab, several GPUs are several ranks.
        asked = dataclasses.replace(asked, distributed=True)
    for name in ("nproc_per_node", "num_gpus", "nnodes"):
        if not asked.distributed and getattr(asked, name) not in (None, 1):
            raise UsageError(f"{flag(name)} {getattr(asked, name)}: add --distributed.")
    backend, visible = _backend(asked, registry)
    kind = backend.kind_of_device(asked.device)
    gpus = _gpus(asked, backend, kind, visible)
    if asked.gpu_ids == "all" and len(gpus) > 1:
        asked = dataclasses.replace(asked, distributed=True)
    asked, joined = join(asked, find_place(asked, registry, environ), environ)
    if asked.distributed and ":" in (asked.device or ""):
        raise UsageError(
            f"--device {asked.device}: each rank of a distributed run has a device of its own. "
            "Choose them by --gpu-ids."
        )
    launcher = None
    if asked.distributed or asked.launcher is not None:
        launcher = choose_launcher(asked, backend, registry).name
    chosen = asked.gpu_ids if isinstance(asked.gpu_ids, tuple) else None
    settled = {
        "backend": backend.name,
        "device_kind": kind,
        "gpu_ids": chosen,
        "launcher": None,
        "nproc_per_node": None,
    }
    placement = Placement(**asked.fields_of(Placement) | settled)
    if not asked.distributed:
        return placement, World(device=_one_device(asked, kind, gpus, visible))
    shared = kind != backend.device
    if shared or (kind != "cpu" and len(gpus) < visible):
        placement = dataclasses.replace(placement, gpu_ids=gpus)
    instead = _to_share(kind, asked.framework, registry)
    if joined:
        device = rank_device(kind, joined.local_rank, len(gpus), shared, instead)
        return placement, dataclasses.replace(joined, device=device)
    ranks = count_ranks(asked.nproc_per_node, kind, gpus, shared, instead)
    if asked.node_rank >= asked.nnodes:
        raise UsageError(f"--node-rank {asked.node_rank}: must be below --nnodes {asked.nnodes}.")
    return dataclasses.replace(placement, nproc_per_node=ranks, launcher=launcher), None


def choose_launcher(asked: RunOptions, backend: BackendSpec, registry: Registry) -> LauncherSpec:
    """Return the launcher that was asked for, or the backend's usual one.

    Raises:
        UsageError: it does not fit the framework, or lacks an option that was given.
    """
    spec = of_framework(asked, registry, LauncherSpec, "launcher", backend.launcher)
    defaults = RunOptions()
    for name in spec.lacks:
        value = getattr(asked, name)
        if value != getattr(defaults, name):
            raise UsageError(
                f"{flag(name)} {value}: the launcher {spec.name} does not have it. Leave it "
                "out, or choose a launcher that has it (--launcher)."
            )
    return spec


def of_framework(
    asked: RunOptions,
    registry: Registry,
    kind: type[FrameworkSpecT],
    option: str,
    usual: str | None,
) -> FrameworkSpecT:
    """Return the launcher or gradient sync that was asked for, or the usual one.

    Raises:
        UsageError: it is not installed, or does not work with the framework.
    """
    framework, name = asked.framework, getattr(asked, option)
    able = [spec.name for spec in registry.all(kind) if framework in spec.frameworks]
    if name is None:
        # What else is installed must not change what a command does.
        name = able[0] if able and usual not in able else usual
    if name is None:
        raise UsageError(f"{flag(option)}: nothing that is installed works with {framework}.")
    spec = registry.get(kind, name)
    if framework not in spec.frameworks:
        instead = f" Instead: {flag(option)} {' or '.join(able)}." if able else ""
        raise UsageError(
            f"{flag(option)} {name}: works with {', '.join(spec.frameworks)}, not {framework}."
            f"{instead}"
        )
    return spec


def _gpus(asked: RunOptions, backend: BackendSpec, kind: str, visible: int) -> tuple[int, ...]:
    """Return the chosen GPUs; none on the CPU, where choosing some is refused."""
    if kind != "cpu":
        return select_gpus(asked.gpu_ids, asked.num_gpus, visible)
    for name in ("gpu_ids", "num_gpus"):
        if getattr(asked, name) not in (None, "none"):
            raise UsageError(
                f"{flag(name)}: the run is on the CPU, by backend {backend.name}. Leave it out, "
                "or for GPUs leave out --backend and --device."
            )
    return ()


def _backend(asked: RunOptions, registry: Registry) -> tuple[BackendSpec, int]:
    """Return the backend and how many of its devices are visible (0 for the CPU)."""
    kind = (asked.device or "").partition(":")[0] or None
    if asked.backend is not None:
        candidates = [registry.get(BackendSpec, asked.backend)]
    else:
        candidates = registry.all(BackendSpec)
        _check_some(asked.framework, candidates, registry)
    of_framework = [spec for spec in candidates if spec.framework == asked.framework]
    fitting = [spec for spec in of_framework if kind in (None, spec.device)]
    if asked.backend is not None:  # Never by default.
        fitting += [spec for spec in of_framework if kind in spec.shares]
    if not fitting:
        wanted = f"{asked.framework}" + (f" on {kind}" if kind else "")
        have = "; ".join(f"{spec.name}: {spec.supports()}" for spec in registry.all(BackendSpec))
        what = f"--backend {asked.backend}" if asked.backend else "No backend"
        raise UsageError(f"{what}: does not run {wanted}. Installed: {have}.")
    # An accelerator is used where there is one, the CPU otherwise; and of two that would do, the
    # one that is always here: what else is installed must not change what a command does.
    fitting.sort(key=lambda spec: (spec.device == "cpu", not spec.usual))
    wants_gpu = asked.num_gpus is not None or isinstance(asked.gpu_ids, tuple)
    starts = asked.distributed or asked.gpu_ids == "all"
    for spec in fitting:
        if spec.kind_of_device(kind) == "cpu":
            return spec, 0
        visible = preflight(spec.count_devices, in_child=starts) if spec.count_devices else 0
        if visible or wants_gpu or asked.gpu_ids == "all":
            return spec, visible
    by_backend = asked.backend if fitting[-1].kind_of_device(None) != "cpu" else None
    what = f"--backend {by_backend}" if by_backend else f"--device {asked.device}"
    on_cpu = [
        spec.name
        for spec in registry.all(BackendSpec)
        if spec.usual and spec.framework == asked.framework and spec.device == "cpu"
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


def _one_device(asked: RunOptions, kind: str, gpus: tuple[int, ...], visible: int) -> str:
    """Return the device of a run that is one process."""
    if kind == "cpu":
        return "cpu"
    index = (asked.device or "").partition(":")[2]
    if not index:
        return f"{kind}:{gpus[0]}"
    if not index.isdigit() or int(index) >= visible:
        raise UsageError(f"--device {asked.device}: {visible} are visible, from 0.")
    return f"{kind}:{int(index)}"
