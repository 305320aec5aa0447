"""Devices of jax by their names in a run. Only its functions import jax."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from rltrain.launch import jax_device as local_device

__all__ = ["about", "count_cuda", "filled", "local_device"]

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""Of NVIDIA's driver, and of the one for WSL."""


def count_cuda() -> int:
    """Return how many GPUs jax can use; CUDA_VISIBLE_DEVICES limits them.

    A launcher calls it in a child process: jax keeps the GPUs open.
    """
    if not any(Path(name).exists() for name in _DRIVER_FILES):
        return 0
    import jax

    try:
        return jax.local_device_count("cuda")
    except RuntimeError:  # jax without its CUDA plugin.
        return 0


def about() -> dict[str, str]:
    """Return jax's version and the hardware it supports, without opening a device."""
    import jax

    plugins = sorted(
        f"{each.name} {each.version}"
        for each in importlib.metadata.distributions()
        if each.name and each.name.startswith("jax-") and each.name.endswith("-plugin")
    )
    built = " and ".join(plugins) or "the CPU only"
    return {
        "version": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "installed for": built,
    }


def filled(size: int, value: float, device: str) -> Any:
    """Return a vector on a device."""
    import jax
    import jax.numpy as jnp

    with jax.default_device(local_device(device)):
        return jnp.full((size,), value, jnp.float32)
