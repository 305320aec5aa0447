"""Devices of jax by their names in a run. Only its functions import jax."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

__all__ = ["about", "count_cuda", "filled", "local_device"]

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""Of NVIDIA's driver, and of the one for WSL."""


def local_device(name: str) -> Any:
    """Return jax's device object for a rank's device, such as "cpu" or "cuda:1".

    With several processes, jax sees one device in each, whatever its index on the node.

    Raises:
        RuntimeError: jax has no such device.
    """
    import jax

    kind, _, index = name.partition(":")
    devices = jax.local_devices(backend=kind)
    place = int(index or 0) if len(devices) > 1 else 0
    if place >= len(devices):
        raise RuntimeError(f"jax has no device {name}: there are {', '.join(map(str, devices))}.")
    return devices[place]


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
