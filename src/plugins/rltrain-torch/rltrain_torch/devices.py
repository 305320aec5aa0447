"""Counting GPUs. Imports torch only where a GPU driver is present."""

from __future__ import annotations

from pathlib import Path

__all__ = ["count_cuda"]

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
