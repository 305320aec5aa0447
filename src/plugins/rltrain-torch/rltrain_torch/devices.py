"""What torch says of itself and of GPUs. Imports torch only when it is asked, in a child."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["about", "count_cuda", "filled"]

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""NVIDIA's driver, the one of WSL, and AMD's, which torch drives under the same name."""


def count_cuda() -> int:
    """Return how many GPUs torch can use; it honours CUDA_VISIBLE_DEVICES.

    Call it in a process of its own: a process that has asked CUDA anything cannot fork ranks.
    """
    if not any(Path(name).exists() for name in _DRIVER_FILES):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def about() -> dict[str, str]:
    """Return torch's version and what it was built for."""
    import torch
    import torch.distributed as dist

    backends = {"gloo": dist.is_gloo_available(), "NCCL": dist.is_nccl_available()}
    built = torch.version.cuda and f"CUDA {torch.version.cuda}"
    built = built or (torch.version.hip and f"ROCm {torch.version.hip}") or "the CPU only"
    told = {"version": torch.__version__, "built for": built}
    told["has"] = " and ".join(name for name, there in backends.items() if there) or "no backend"
    if backends["NCCL"]:
        nccl: Any = torch.cuda.nccl
        told["NCCL"] = ".".join(map(str, nccl.version()))
    return told


def filled(size: int, value: float, device: str) -> torch.Tensor:
    """Return a vector on a device."""
    import torch

    return torch.full((size,), value, dtype=torch.float32, device=device)
