"""Devices of jax by their names in a run. Only its functions import jax."""

from __future__ import annotations

import ctypes
import importlib.metadata
from pathlib import Path
from typing import Any

from rltrain.errors import RltrainError

__all__ = ["about", "count_cuda", "local_device"]

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""Of NVIDIA's driver, and of the one for WSL."""

_NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE: CUDA_VISIBLE_DEVICES hides them all (cuda.h, CUresult)."""


def local_device(name: str) -> Any:
    """Return jax's device object for a rank's device, such as "cpu" or "cuda:1".

    With several processes, jax sees one device in each, whatever its index on the node.

    Raises:
        RltrainError: jax has no such device, or cannot open it.
    """
    import jax

    kind, _, index = name.partition(":")
    try:
        devices = jax.local_devices(backend=kind)
    except RuntimeError as error:  # On a GPU with full memory, too: "no supported devices found".
        raise RltrainError(
            f"jax cannot open {name}: {error} If other processes hold the GPU's memory, as "
            "`nvidia-smi` shows, end them or use other GPUs: --gpu-ids."
        ) from error
    place = int(index or 0) if len(devices) > 1 else 0
    if place >= len(devices):
        raise RltrainError(f"jax has no device {name}: there are {', '.join(map(str, devices))}.")
    return devices[place]


def count_cuda() -> int:
    """Return how many GPUs jax can use; CUDA_VISIBLE_DEVICES limits them.

    The driver counts them: jax would open each, which takes seconds, and finds none where another
    process has taken their memory.
    """
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    there = any(Path(name).exists() for name in _DRIVER_FILES)
    if not there or not any("cuda" in plugin.name for plugin in plugins):
        return 0
    number = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:  # A container may have the driver's files without its libraries.
        raise RltrainError(
            f"jax cannot use the GPUs: {error}. On the CPU: --device cpu."
        ) from error
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(number))
    if failed not in (0, _NO_DEVICE):
        raise RltrainError(
            f"NVIDIA's driver answers with CUDA error {failed} when jax asks for GPUs; nvidia-smi "
            "may say why. On the CPU: --device cpu."
        )
    return number.value


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
