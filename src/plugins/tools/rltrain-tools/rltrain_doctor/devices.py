"""GPUs and drivers, queried without touching CUDA in this process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rltrain.errors import RltrainError
from rltrain.launch import available_cores
from rltrain.plugins import Registry
from rltrain.specs import BackendSpec
from rltrain.work import preflight
from rltrain_doctor.findings import Finding, ok, problem, warning
from rltrain_doctor.of_plugins import facts

TIMEOUT = 30
"""Seconds for nvidia-smi, which never answers if the driver hangs."""

_QUERY = ("index", "name", "driver_version", "memory.total")


def devices(
    environ: Mapping[str, str], registry: Registry, framework: str, report: Callable[[str], None]
) -> Iterator[Finding]:
    """Report which GPUs exist, which are visible, and which the framework can use.

    Args:
        environ: the environment variables.
        registry: the installed plugins.
        framework: of the run.
        report: called before what takes seconds.
    """
    yield ok("cores", f"{available_cores()} for this process", cores=available_cores())
    gpus, finding = _nvidia_smi()
    yield finding
    if "CUDA_VISIBLE_DEVICES" in environ:
        yield _visible(environ["CUDA_VISIBLE_DEVICES"], gpus)
    asked = [spec for spec in _specs(registry) if spec.framework == framework]
    report(f"asking {framework} what it sees ...")
    for path in facts(registry, framework):
        yield from _facts(path, framework)
    for spec in asked:
        if spec.count_devices and spec.device != "cpu":
            counted = _counted(spec, gpus, environ)
            yield counted
            if counted.data.get("visible") and spec.cannot_share:
                yield _sharing(spec, spec.cannot_share)


def _specs(registry: Registry) -> list[BackendSpec]:
    """Return every backend, including those that two plugins provide."""
    return [
        spec
        for record in registry.records
        for spec in record.specs
        if isinstance(spec, BackendSpec)
    ]


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
    name, setting = "visible", f"CUDA_VISIBLE_DEVICES={value}"
    ids = [item.strip() for item in value.split(",")] if value else []
    missing = [x for x in ids if x.isdigit() and gpus is not None and int(x) >= gpus]
    if missing:
        hint = "CUDA hides all GPUs from the first wrong index on. Use indices from nvidia-smi."
        return warning(name, f"{setting}: there is no GPU {missing[0]} of {gpus}", hint)
    if len(set(ids)) < len(ids):
        hint = "CUDA then hides all GPUs. Name it once."
        return warning(name, f"{setting}: a GPU is named twice", hint)
    if not ids or ids == ["-1"]:
        return ok(name, f"{setting}: all GPUs are hidden")
    return ok(name, f"{setting}: {len(ids)} visible, numbered 0 to {len(ids) - 1} for --gpu-ids")


def _facts(path: str, framework: str) -> Iterator[Finding]:
    """Report the framework's version and features, read in a child process."""
    try:
        told: Mapping[str, Any] = preflight(path, in_child=True)
    except RltrainError as error:
        hint = "Reinstall it; the error says what is missing."
        yield problem(framework, f"does not import: {_last_line(error)}", hint)
        return
    yield ok(framework, ", ".join(f"{name} {value}" for name, value in told.items()), **told)


def _counted(spec: BackendSpec, gpus: int | None, environ: Mapping[str, str]) -> Finding:
    assert spec.count_devices is not None
    try:
        number = preflight(spec.count_devices, in_child=True)
    except RltrainError as error:
        hint = "Ranks cannot use the GPUs either. On the CPU: --device cpu"
        return warning(spec.name, f"cannot count GPUs: {_last_line(error)}", hint)
    if not number and gpus and environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1"):
        hint = (
            f"Install {spec.framework} for a CUDA version that the driver supports; until then, "
            "runs use the CPU."
        )
        text = f"sees no GPU, but the driver has {gpus}: {spec.framework} cannot use the GPUs"
        return warning(spec.name, text, hint)
    return ok(spec.name, f"sees {number or 'no'} GPU{'s' if number != 1 else ''}", visible=number)


def _sharing(spec: BackendSpec, cannot_share: str) -> Finding:
    """Report whether several ranks may share a GPU, in the words of the plan's refusal."""
    reason = preflight(cannot_share, in_child=True)
    if reason is not None:
        return ok(spec.name, f"several ranks cannot share a GPU: {reason}", shares=False)
    text = f"several ranks may share a GPU: --backend {spec.name}, and more ranks than GPUs"
    return ok(spec.name, text, shares=True)


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
