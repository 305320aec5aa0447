"""A rank's state as bytes: equal where the state is, and readable on another device."""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any

__all__ = ["dumps", "loads"]


def dumps(state: Any) -> bytes:
    """Return a state as bytes; a tensor in it is taken to the host.

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


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> tuple[str, Any, bool] | None:
        """Return framework, numpy array and whether it was on the host, for a tensor."""
        if type(obj).__module__.partition(".")[0] != "torch" or not hasattr(obj, "detach"):
            return None
        return "torch", obj.detach().cpu().numpy(), obj.device.type == "cpu"


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, device: str) -> None:
        super().__init__(file)
        self._device = device

    def persistent_load(self, saved: tuple[str, Any, bool]) -> Any:
        """Make the tensor again."""
        framework, array, on_host = saved
        tensor = importlib.import_module(framework).from_numpy(array.copy())
        return tensor if on_host else tensor.to(self._device)
