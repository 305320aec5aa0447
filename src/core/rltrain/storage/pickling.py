"""A rank's state as bytes: equal states give equal bytes, which any device can load."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from typing import Any

__all__ = ["dumps", "jax_device", "loads"]


def dumps(state: Any) -> bytes:
    """Return a state as bytes, with its torch tensors and jax arrays copied to the host.

    Plain pickle would store a tensor's device and memory location: another machine could not load
    it, and equal tensors would give different bytes.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(state)
    return buffer.getvalue()


def loads(data: bytes, device: str) -> Any:
    """Return the state. Tensors that were on a device are put on this rank's device.

    Args:
        data: what `dumps` returned. It is unpickled: use only data that you trust.
        device: this rank's device.
    """
    return _Unpickler(io.BytesIO(data), device).load()


def jax_device(name: str) -> Any:
    """Return jax's device object for a rank's device, such as "cpu" or "cuda:1".

    With several processes, jax sees one device in each, whatever its index on the node.

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
        """Return a tensor's framework, its numpy array, and whether it was on the host."""
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
        """Rebuild the tensor."""
        framework, array, on_host = saved
        module = importlib.import_module(framework)
        if framework == "jax":
            return module.device_put(array, jax_device("cpu" if on_host else self._device))
        tensor = module.from_numpy(array.copy())
        return tensor if on_host else tensor.to(self._device)
