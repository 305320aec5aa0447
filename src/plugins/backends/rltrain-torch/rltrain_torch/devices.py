"""torch's version and the GPUs it can use. Imports torch inside of functions only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Device files of NVIDIA's driver, WSL's, and AMD's, whose GPUs torch also calls "cuda"."""


def count_cuda() -> int:
    """Return how many GPUs torch can use; it respects CUDA_VISIBLE_DEVICES.

    Call it in a separate process: a process that has initialized CUDA cannot fork ranks.
    """
    if not any(Path(name).exists() for name in _DRIVER_FILES):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def about() -> dict[str, str]:
    """Return torch's version, its build and its backends, by name."""
    import torch
    import torch.distributed as dist

    backends = {"gloo": dist.is_gloo_available(), "NCCL": dist.is_nccl_available()}
    built = torch.version.cuda and f"CUDA {torch.version.cuda}"
    built = built or (torch.version.hip and f"ROCm {torch.version.hip}") or "the CPU only"
    facts = {"version": torch.__version__, "built for": built}
    available = [name for name, is_available in backends.items() if is_available]
    facts["has"] = " and ".join(available) or "no backend"
    if backends["NCCL"]:
        nccl: Any = torch.cuda.nccl
        facts["NCCL"] = ".".join(map(str, nccl.version()))
    return facts
