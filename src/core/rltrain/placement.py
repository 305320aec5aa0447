"""Where a run runs: its backend, its devices, and how many ranks there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rltrain.config import RunConfig, flag
from rltrain.errors import UsageError
from rltrain.plugins import Registry
from rltrain.preflight import preflight
from rltrain.ranks import count_ranks, joined_world, rank_device, select_gpus
from rltrain.schedulers import check_alone, scheduled_world
from rltrain.specs import BackendSpec
from rltrain.types import World

__all__ = ["place"]

DEFAULT_BACKENDS = {"torch": ("nccl", "gloo"), "jax": ("jax-cuda", "jax")}
"""Of each framework, for GPUs and for the CPU."""


def place(
    config: RunConfig, registry: Registry, environ: Mapping[str, str]
) -> tuple[RunConfig, World | None]:
    """Choose backend and devices; count the ranks, or find this one's place among started ones.

    Returns:
        The config with `backend`, `distributed`, `gpu_ids` and `nproc_per_node` settled, and this
        process' place: None if ranks are to be started.

    Raises:
        UsageError: what was asked for is not there, or contradicts itself.
    """
    if config.gpu_ids == "none":
        config = dataclasses.replace(config, device="cpu")
    joined = _joined(config, environ)
    several = isinstance(config.gpu_ids, tuple) and len(config.gpu_ids) > 1
    if several and not config.distributed:  # As with mjlab, several GPUs are several ranks.
        config = dataclasses.replace(config, distributed=True)
    for name in ("nproc_per_node", "num_gpus", "nnodes"):
        if not config.distributed and getattr(config, name) not in (None, 1):
            raise UsageError(f"{flag(name)} {getattr(config, name)}: add --distributed.")
    backend, visible = _backend(config, registry)
    kind = backend.kind_of_device(config.device)
    shared = kind != backend.device
    for name in ("gpu_ids", "num_gpus"):
        if kind == "cpu" and getattr(config, name) not in (None, "none"):
            raise UsageError(
                f"{flag(name)}: the run is on the CPU, by backend {backend.name}. Leave it out, "
                "or for GPUs leave out --backend and --device."
            )
    gpus = select_gpus(config, visible) if kind != "cpu" else ()
    if config.gpu_ids == "all" and len(gpus) > 1:
        config = dataclasses.replace(config, distributed=True)
    config = dataclasses.replace(config, backend=backend.name)
    if config.distributed and ":" in (config.device or ""):
        raise UsageError(
            f"--device {config.device}: each rank of a distributed run has a device of its own. "
            "Choose them by --gpu-ids."
        )
    if not config.distributed:
        return config, World(device=_one_device(config, kind, gpus, visible))
    if shared or (kind != "cpu" and len(gpus) < visible):
        config = dataclasses.replace(config, gpu_ids=gpus)
    instead = _to_share(kind, config.framework, registry)
    if joined:
        device = rank_device(kind, joined.local_rank, len(gpus), shared, instead)
        return config, dataclasses.replace(joined, device=device)
    if config.nnodes == 1:
        check_alone(environ)
    ranks = count_ranks(config, kind, gpus, shared, instead)
    if config.node_rank >= config.nnodes:
        raise UsageError(f"--node-rank {config.node_rank}: must be below --nnodes {config.nnodes}.")
    return dataclasses.replace(config, nproc_per_node=ranks), None


def _joined(config: RunConfig, environ: Mapping[str, str]) -> World | None:
    """Return this rank's place among ranks that were started already.

    Raises:
        UsageError: there are several, but the run would not be one of them.
    """
    of_torchrun = joined_world(environ)
    joined = of_torchrun or joined_world(environ, framework="jax")
    if joined and joined.world_size > 1:
        variable = "WORLD_SIZE" if of_torchrun else "JAX_WORLD_SIZE"
        started = f"A launcher started {joined.world_size} ranks ({variable} is set), but"
        if not of_torchrun and config.framework != "jax":
            raise UsageError(
                f"{started} for jax, and the run is on {config.framework}: each would train alone. "
                "Add --framework jax, or start one process."
            )
        if not config.distributed:
            raise UsageError(
                f"{started} --distributed was not given: each would train alone. Add "
                "--distributed, or start one process."
            )
    if config.framework != "jax":
        return of_torchrun
    if joined or not config.distributed:
        return joined
    # A task of srun that is told to start ranks, or how many, is a node and not a rank.
    asked = (config.launcher, config.nproc_per_node, config.num_gpus)
    if config.nnodes > 1 or any(option is not None for option in asked):
        return None
    by_name = all(environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT"))
    return scheduled_world(environ, config.coordinator_address is not None or by_name)


def _backend(config: RunConfig, registry: Registry) -> tuple[BackendSpec, int]:
    """Return the backend and how many of its devices are visible (0 for the CPU)."""
    kind = (config.device or "").partition(":")[0] or None
    if config.backend is not None:
        candidates = [registry.get(BackendSpec, config.backend)]
    else:
        candidates = registry.all(BackendSpec)
        _check_some(config.framework, candidates, registry)
    of_framework = [spec for spec in candidates if spec.framework == config.framework]
    fitting = [spec for spec in of_framework if kind in (None, spec.device)]
    if config.backend is not None:  # Never by default.
        fitting += [spec for spec in of_framework if kind in spec.shares]
    if not fitting:
        wanted = f"{config.framework}" + (f" on {kind}" if kind else "")
        have = "; ".join(f"{spec.name}: {spec.supports()}" for spec in registry.all(BackendSpec))
        asked = f"--backend {config.backend}" if config.backend else "No backend"
        raise UsageError(f"{asked}: does not run {wanted}. Installed: {have}.")
    # An accelerator is used where there is one, the CPU otherwise; and of two that would do, the
    # one that is always here: what else is installed must not change what a command does.
    usual = DEFAULT_BACKENDS.get(config.framework, ())
    fitting.sort(key=lambda spec: (spec.device == "cpu", spec.name not in usual))
    wants_gpu = config.num_gpus is not None or isinstance(config.gpu_ids, tuple)
    starts = config.distributed or config.gpu_ids == "all"
    for spec in fitting:
        if spec.kind_of_device(kind) == "cpu":
            return spec, 0
        visible = preflight(spec.count_devices, in_child=starts) if spec.count_devices else 0
        if visible or wants_gpu or config.gpu_ids == "all":
            return spec, visible
    by_backend = config.backend if fitting[-1].kind_of_device(None) != "cpu" else None
    what = f"--backend {by_backend}" if by_backend else f"--device {config.device}"
    raise UsageError(
        f"{what}: needs a GPU, and no GPU is visible on this machine. "
        f"On the CPU: {f'--backend {usual[-1]}' if by_backend and usual else '--device cpu'}."
    )


def _to_share(kind: str, framework: str, registry: Registry) -> str:
    """Say how ranks can share devices of a kind, if they can."""
    able = [spec for spec in registry.all(BackendSpec) if spec.framework == framework]
    names = [spec.name for spec in able if kind in spec.shares]
    return (
        f" To debug ranks that share GPUs: --backend {names[0]} --device {kind}." if names else ""
    )


def _check_some(framework: str, candidates: list[BackendSpec], registry: Registry) -> None:
    """Say what is to be installed, if nothing installed runs a framework.

    Raises:
        UsageError: that is so.
    """
    if framework not in DEFAULT_BACKENDS or any(x.framework == framework for x in candidates):
        return
    ready = sorted({spec.framework for spec in candidates})
    try:
        registry.get(BackendSpec, DEFAULT_BACKENDS[framework][-1])
    except UsageError as error:
        raise UsageError(
            f"--framework {framework}: nothing that is ready runs it. {str(error).rstrip('.')}. "
            f"To install all of it: pip install 'rltrain-{framework}[library]'"
            + (f". Ready: --framework {' or '.join(ready)}." if ready else "")
        ) from None


def _one_device(config: RunConfig, kind: str, gpus: tuple[int, ...], visible: int) -> str:
    """Return the device of a run that is one process."""
    if kind == "cpu":
        return "cpu"
    index = (config.device or "").partition(":")[2]
    if not index:
        return f"{kind}:{gpus[0]}"
    if not index.isdigit() or int(index) >= visible:
        raise UsageError(f"--device {config.device}: {visible} are visible, from 0.")
    return f"{kind}:{int(index)}"
