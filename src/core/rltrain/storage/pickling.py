"""A rank's state as bytes: equal where the state is, and readable on another device."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from typing import Any

__all__ = ["dumps", "jax_device", "loads"]


def dumps(state: Any) -> bytes:
    """Return a state as bytes; torch's tensors and jax's arrays in it are taken to the host.

    A pickled tensor names its device, and where its memory was: it could not be read on another
    machine, and no two would be the same bytes.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(state)
    return buffer.getvalue()


def loads(data: bytes, device: str) -> Any:
    """Return the state; what was on a device is put on this rank's.

    Args:
        data: what `dumps` returned. It is unpickled: only from files that are trusted.
        device: this rank's.
    """
    return _Unpickler(io.BytesIO(data), device).load()


def jax_device(name: str) -> Any:
    """Return jax's device for a rank's, "cpu" or "cuda:1".

    A process of several shows jax one device, whatever its number on the node is.

    Raises:
        RuntimeError: jax has no such device.
    """
    kind, _, index = name.partition(":")
    devices = importlib.import_module("jax").local_devices(backend=kind)
    place = int(index or 0) if len(devices) > 1 else 0
    if place >= len(devices):
        raise RuntimeError(f"jax has no device {name}: there are {', '.join(map(str, devices))}.")
    return devices[place]


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> tuple[str, Any, bool] | None:
        """Return framework, numpy array and whether it was on the host, for a tensor."""
        package = type(obj).__module__.partition(".")[0]
        if package == "torch" and hasattr(obj, "detach"):
            return "torch", obj.detach().cpu().numpy(), obj.device.type == "cpu"
        if package in ("jax", "jaxlib") and isinstance(obj, sys.modules["jax"].Array):
            numpy = importlib.import_module("numpy")
            return "jax", numpy.array(obj), next(iter(obj.devices())).platform == "cpu"
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, device: str) -> None:
        super().__init__(file)
        self._device = device

    def persistent_load(self, saved: tuple[str, Any, bool]) -> Any:
        """Make the tensor again."""
        framework, array, on_host = saved
        module = importlib.import_module(framework)
        if framework == "jax":
            return module.device_put(array, jax_device("cpu" if on_host else self._device))
        tensor = module.from_numpy(array.copy())
        return tensor if on_host else tensor.to(self._device)
