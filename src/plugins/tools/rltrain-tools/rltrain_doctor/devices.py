"""GPUs and drivers, queried without touching CUDA in this process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping

from rltrain.errors import RltrainError
from rltrain.launch import available_cores
from rltrain.plugins import Registry
from rltrain.specs import BackendSpec
from rltrain.work import preflight
from rltrain_doctor.findings import Finding, ok, problem, warning
from rltrain_doctor.versions import facts

TIMEOUT = 30
"""Seconds for nvidia-smi, which never answers if the driver hangs."""

_QUERY = ("index", "name", "driver_version", "memory.total")


def devices(
    environ: Mapping[str, str], registry: Registry, framework: str, report: Callable[[str], None]
) -> Iterator[Finding]:
    """Report which GPUs exist, which are visible, and which the framework can use."""
    yield ok("cores", f"{available_cores()} for this process", cores=available_cores())
    gpus, finding = _nvidia_smi()
    yield finding
    if (visible := environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        yield _visible(visible, gpus)
    report(f"asking {framework} what it sees ...")
    for path in facts(registry, framework):
        try:
            found: Mapping[str, object] = preflight(path, in_child=True)
        except RltrainError as error:
            hint = "Reinstall it; the error says what is missing."
            yield problem(framework, f"does not import: {_last_line(error)}", hint)
            continue
        text = ", ".join(f"{name} {value}" for name, value in found.items())
        yield ok(framework, text, **found)
    for spec in registry.all(BackendSpec):
        if spec.framework == framework and spec.device != "cpu" and spec.count_devices:
            yield from _counted(spec, spec.count_devices, gpus, visible in ("", "-1"))


def _nvidia_smi() -> tuple[int | None, Finding]:
    """Return how many GPUs the driver has, None if unknown, and the finding about the driver."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return None, ok("driver", "no nvidia-smi: no NVIDIA driver, or not in this container")
    query = [command, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader"]
    hint = "Run nvidia-smi by hand. You may have to reload the driver, or reboot the node."
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return None, problem("driver", f"nvidia-smi did not answer within {TIMEOUT} s", hint)
    if done.returncode != 0:
        output = " ".join((done.stdout or done.stderr).split())
        return None, warning("driver", f"nvidia-smi failed: {output}", hint)
    rows = [[item.strip() for item in line.split(",")] for line in done.stdout.splitlines() if line]
    found = [dict(zip(_QUERY, row, strict=False)) for row in rows]
    named = "; ".join(f"{gpu['index']} {gpu['name']}, {gpu.get('memory.total')}" for gpu in found)
    driver = found[0].get("driver_version") if found else "?"
    return len(found), ok("driver", f"NVIDIA {driver}: {named or 'no GPU'}", gpus=found)


def _visible(value: str, gpus: int | None) -> Finding:
    """Check the value of CUDA_VISIBLE_DEVICES."""
    setting, ids = f"CUDA_VISIBLE_DEVICES={value}", value.replace(" ", "").split(",")
    missing = [x for x in ids if x.isdigit() and gpus is not None and int(x) >= gpus]
    if missing:
        hint = "CUDA hides all GPUs from the first wrong index on. Use indices from nvidia-smi."
        return warning("visible", f"{setting}: there is no GPU {missing[0]} of {gpus}", hint)
    if len(set(ids)) < len(ids):
        hint = "CUDA then hides all GPUs. Name it once."
        return warning("visible", f"{setting}: a GPU is named twice", hint)
    if ids in ([""], ["-1"]):
        return ok("visible", f"{setting}: all GPUs are hidden")
    return ok(
        "visible", f"{setting}: {len(ids)} visible, numbered 0 to {len(ids) - 1} for --gpu-ids"
    )


def _counted(spec: BackendSpec, count: str, gpus: int | None, hidden: bool) -> Iterator[Finding]:
    """Report how many GPUs a backend sees."""
    try:
        number = preflight(count, in_child=True)
    except RltrainError as error:
        hint = "Ranks cannot use the GPUs either. On the CPU: --device cpu"
        yield warning(spec.name, f"cannot count GPUs: {_last_line(error)}", hint)
        return
    if not number and gpus and not hidden:
        text = f"sees no GPU, but the driver has {gpus}: {spec.framework} cannot use the GPUs"
        hint = (
            f"Install {spec.framework} for a CUDA version that the driver supports; until then, "
            "runs use the CPU."
        )
        yield warning(spec.name, text, hint)
        return
    yield ok(spec.name, f"sees {number or 'no'} GPU{'s' if number != 1 else ''}", visible=number)


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
