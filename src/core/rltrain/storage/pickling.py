"""A rank's state as bytes: equal states give equal bytes, which any device can load."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

from rltrain.types import Arrays
from rltrain.unpickling import DataUnpickler

__all__ = ["dumps", "loads"]


def dumps(state: Any, arrays: Mapping[str, Arrays]) -> bytes:
    """Return a state as bytes, with the frameworks' arrays copied to the host.

    Plain pickle would store an array's device and memory location: another machine could not load
    it, and equal arrays would give different bytes.

    Args:
        state: anything that can be pickled.
        arrays: by framework.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, arrays).dump(state)
    return buffer.getvalue()


def loads(data: bytes, device: str, arrays: Mapping[str, Arrays], trusted: bool = False) -> Any:
    """Return the state. Arrays that were on a device are put on this rank's device.

    Args:
        data: what `dumps` returned.
        device: this rank's device.
        arrays: by framework.
        trusted: whether to build whatever it names, which may run any code.

    Raises:
        UnsafePickle: it is not trusted, and it names what is not known to be data only.
        pickle.UnpicklingError: it has arrays of another framework.
    """
    return _Unpickler(io.BytesIO(data), device, arrays, trusted).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, arrays: Mapping[str, Arrays]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._arrays = arrays

    def persistent_id(self, obj: Any) -> tuple[str, Any, bool] | None:
        """Return an array's framework, its numpy array, and whether it was on the host."""
        for framework, arrays in self._arrays.items():
            if arrays.owns(obj):
                return framework, *arrays.to_host(obj)
        return None


class _Unpickler(DataUnpickler):
    def __init__(
        self, file: io.BytesIO, device: str, arrays: Mapping[str, Arrays], trusted: bool
    ) -> None:
        super().__init__(file, trusted)
        self._device, self._arrays = device, arrays

    def persistent_load(self, saved: tuple[str, Any, bool]) -> Any:
        """Rebuild the array."""
        framework, array, on_host = saved
        if framework not in self._arrays:
            raise pickle.UnpicklingError(
                f"The state has arrays of {framework}, and no installed backend handles them."
            )
        return self._arrays[framework].from_host(array, "cpu" if on_host else self._device)
