"""Devices of jax by their names in a run. Imports jax only when it is asked for one."""

from __future__ import annotations

from pathlib import Path

from rltrain.host_state import jax_device as local_device

__all__ = ["count_cuda", "local_device"]

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""NVIDIA's driver, and the one of WSL."""


def count_cuda() -> int:
    """Return how many GPUs jax can use; it honours CUDA_VISIBLE_DEVICES.

    A process that is to start ranks calls it in one of its own: jax keeps what it has opened.
    """
    if not any(Path(name).exists() for name in _DRIVER_FILES):
        return 0
    import jax

    try:
        return jax.local_device_count("cuda")
    except RuntimeError:  # jax without its CUDA plugin.
        return 0
