"""Converts arrays between Isaac Lab, which uses torch, and the session's framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


class ArrayConverter:
    """Copies torch tensors, for sessions of torch.

    The copies are needed: Isaac Lab keeps writing to some of its results, and tasks may return
    views of the simulation's buffers.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    def to_session(self, tensor: Any, dtype: torch.dtype | None = None) -> Any:
        """Convert a tensor from Isaac Lab to an array of the session's framework.

        Args:
            tensor: a tensor on the simulation's device.
            dtype: the dtype to convert to; None keeps the tensor's.
        """
        return tensor.detach().to(self.device, dtype or tensor.dtype, copy=True)

    def to_torch(self, array: Any) -> torch.Tensor:
        """Convert an array from the library to a writable tensor."""
        return torch.as_tensor(array, device=self.device).detach().clone()

    def to_session_each(self, groups: Any, spaces: Any) -> Any:
        """Convert observations, nested like their spaces, to the dtypes of the spaces."""
        parts = getattr(spaces, "spaces", None)
        if isinstance(parts, Mapping):
            return {
                name: self.to_session_each(groups[name], space) for name, space in parts.items()
            }
        if parts is not None:
            return tuple(map(self.to_session_each, groups, parts))
        dtype = None if spaces.dtype is None else getattr(torch, str(spaces.dtype))
        return self.to_session(groups, dtype)


class JaxArrayConverter(ArrayConverter):
    """Converts copies of tensors to jax arrays through DLPack, without a second copy."""

    def __init__(self, device: str) -> None:
        import jax

        from rltrain_jax.devices import local_device

        super().__init__(device)
        self._jax = jax
        self._device = local_device(device)

    def to_session(self, tensor: Any, dtype: torch.dtype | None = None) -> Any:
        """Convert a tensor to a jax array; 64-bit types become 32-bit, jax's default mode."""
        dtype = dtype or tensor.dtype
        narrow = {torch.int64: torch.int32, torch.float64: torch.float32}.get(dtype, dtype)
        given = super().to_session(tensor, narrow).contiguous()
        return self._jax.device_put(self._jax.dlpack.from_dlpack(given), self._device)

    def to_torch(self, array: Any) -> torch.Tensor:
        """Convert an array to a tensor; copied, because jax arrays are immutable."""
        if isinstance(array, self._jax.Array):
            return torch.utils.dlpack.from_dlpack(array).to(self.device, copy=True)
        return super().to_torch(array)


def make_converter(framework: str, device: str) -> ArrayConverter:
    """Return the converter of a framework.

    Args:
        framework: "torch" or "jax".
        device: the rank's device, such as "cuda:1".
    """
    return JaxArrayConverter(device) if framework == "jax" else ArrayConverter(device)
