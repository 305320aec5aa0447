"""The backend of a run: which one fits, and how many devices it has."""

from __future__ import annotations

from rltrain.errors import UsageError, suggest
from rltrain.launch.preflight import preflight
from rltrain.options.run import RunOptions
from rltrain.plugins.registry import Registry
from rltrain.specs import BackendSpec


def choose_backend(
    requested: RunOptions, registry: Registry, gpus_elsewhere: int | None
) -> tuple[BackendSpec, int]:
    """Return the backend and how many of its devices are visible (0 for the CPU).

    On another machine they are not counted, but `gpus_elsewhere`.
    """
    kind = (requested.device or "").partition(":")[0] or None
    fitting = _fitting(requested, registry)
    wants_gpu = isinstance(requested.gpu_ids, tuple) or requested.gpu_ids == "all"
    starts = requested.distributed or requested.gpu_ids == "all"

    def count(spec: BackendSpec) -> int:
        if gpus_elsewhere is not None or not spec.count_devices:
            return gpus_elsewhere or 0
        return int(preflight(spec.count_devices, in_child=starts))

    # An accelerator if there is one, else the CPU.
    counted = [(spec, count(spec)) for spec in fitting if spec.kind_of_device(kind) != "cpu"]
    there = [(spec, visible) for spec, visible in counted if visible or wants_gpu]
    if len(there) > 1:
        devices = [spec.device for spec, _ in there]
        raise UsageError(
            f"This machine has devices of several kinds, {' and '.join(devices)}. Say which: "
            f"--device {' or --device '.join(devices)}."
        )
    there += [(spec, 0) for spec in fitting if spec.kind_of_device(kind) == "cpu"]
    if there:
        return there[0]
    by_backend = requested.backend if fitting[-1].kind_of_device(None) != "cpu" else None
    what = f"--backend {by_backend}" if by_backend else f"--device {requested.device}"
    on_cpu = " or ".join(
        spec.name
        for spec in registry.all(BackendSpec)
        if spec.is_default and spec.framework == requested.framework and spec.device == "cpu"
    )
    raise UsageError(
        f"{what}: needs a GPU, and no GPU is visible on this machine. "
        f"On the CPU: {f'--backend {on_cpu}' if by_backend and on_cpu else '--device cpu'}."
    )


def _fitting(requested: RunOptions, registry: Registry) -> list[BackendSpec]:
    """Return the backend that fits the framework for each kind of device: the usual one."""
    kind = (requested.device or "").partition(":")[0] or None
    if requested.backend is not None:
        candidates = [registry.get(BackendSpec, requested.backend)]
    else:
        candidates = registry.all(BackendSpec)
        _check_some(requested.framework, candidates, registry)
    of_framework = [spec for spec in candidates if spec.framework == requested.framework]
    fitting = [spec for spec in of_framework if kind in (None, spec.device)]
    if requested.backend is not None:  # Never by default.
        fitting += [spec for spec in of_framework if kind in spec.shared_devices]
    if not fitting:
        wanted = f"{requested.framework}" + (f" on {kind}" if kind else "")
        have = "; ".join(f"{spec.name}: {spec.supports()}" for spec in registry.all(BackendSpec))
        named = requested.backend and f"--backend {requested.backend}: does not run"
        raise UsageError(f"{named or 'No backend runs'} {wanted}. Installed: {have}.")
    # Installing another must not change what a command does.
    fitting = [spec for spec in fitting if spec.is_default] or fitting
    for device in {spec.device for spec in fitting}:
        names = dict.fromkeys(spec.name for spec in fitting if spec.device == device)
        if len(names) > 1:
            raise UsageError(
                f"Several backends run {requested.framework} on {device}. Say which: --backend "
                f"{' or '.join(names)}."
            )
    return fitting


def _check_some(framework: str, candidates: list[BackendSpec], registry: Registry) -> None:
    """Say what to install if no installed backend runs a framework."""
    ready = sorted({spec.framework for spec in candidates})
    if framework in ready:
        return
    raise UsageError(
        f"--framework {framework}: no installed backend runs it.{suggest(framework, ready)} "
        f"Installed: {', '.join(ready) or 'none'}.{registry.not_ready(BackendSpec)} If there is a "
        f"plugin: pip install 'rltrain-{framework}[library]'."
    )


def how_to_share(kind: str, framework: str, registry: Registry) -> str:
    """Say how ranks can share devices of a kind, if they can."""
    able = [spec for spec in registry.all(BackendSpec) if spec.framework == framework]
    names = [f"--backend {x.name}" for x in able if x.device == kind and x.why_not_shared]
    names += [f"--backend {x.name} --device {kind}" for x in able if kind in x.shared_devices]
    return f" To debug ranks that share GPUs: {' or '.join(names)}." if names else ""


def may_share(
    requested: RunOptions, backend: BackendSpec, ranks: int | str | None, gpus: tuple[int, ...]
) -> bool:
    """Return whether ranks share a backend's own kind of devices, `gpus`: never by default."""
    named = requested.backend is not None and isinstance(ranks, int)
    if not (named and backend.why_not_shared and gpus and int(ranks or 0) > len(gpus)):
        return False
    reason = preflight(backend.why_not_shared, in_child=True)
    if reason is not None:
        raise UsageError(
            f"--backend {backend.name}: {ranks} ranks on {len(gpus)} GPU"
            f"{'s' if len(gpus) > 1 else ''}: {reason}"
        )
    return True
