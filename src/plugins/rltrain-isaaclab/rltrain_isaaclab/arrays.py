"""How arrays cross between Isaac Lab, which is written for torch, and the session's framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["Crossing", "JaxCrossing", "make_crossing"]


class Crossing:
    """Torch tensors stay what they are, but are copied.

    Isaac Lab goes on writing to some of its results, and tasks may give views of buffers of the
    simulation.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    def give(self, tensor: Any, dtype: torch.dtype | None = None) -> Any:
        """Return a tensor of Isaac Lab's as an array of the session's.

        Args:
            tensor: on the simulation's device.
            dtype: what it is converted to; None leaves it.
        """
        return tensor.detach().to(self.device, dtype or tensor.dtype, copy=True)

    def take(self, array: Any) -> torch.Tensor:
        """Return an array that a library gave as a tensor that may be written to."""
        return torch.as_tensor(array, device=self.device).detach().clone()

    def give_each(self, groups: Any, spaces: Any) -> Any:
        """Return observations, nested as their spaces are, in the spaces' data types."""
        parts = getattr(spaces, "spaces", None)
        if isinstance(parts, Mapping):
            return {name: self.give_each(groups[name], space) for name, space in parts.items()}
        if parts is not None:
            return tuple(map(self.give_each, groups, parts))
        dtype = None if spaces.dtype is None else getattr(torch, str(spaces.dtype))
        return self.give(groups, dtype)


class JaxCrossing(Crossing):
    """Tensors become jax arrays in the same memory, by DLPack, once they are copied."""

    def __init__(self, device: str) -> None:
        import jax

        from rltrain_jax.devices import local_device

        super().__init__(device)
        self._jax = jax
        self._device = local_device(device)

    def give(self, tensor: Any, dtype: torch.dtype | None = None) -> Any:
        """Return a jax array; jax, which is left in its 32-bit mode, has no long integers."""
        dtype = dtype or tensor.dtype
        narrow = {torch.int64: torch.int32, torch.float64: torch.float32}.get(dtype, dtype)
        given = super().give(tensor, narrow).contiguous()
        return self._jax.device_put(self._jax.dlpack.from_dlpack(given), self._device)

    def take(self, array: Any) -> torch.Tensor:
        """Return a copy, for nobody may write to a jax array."""
        if isinstance(array, self._jax.Array):
            return torch.utils.dlpack.from_dlpack(array).to(self.device, copy=True)
        return super().take(array)


def make_crossing(framework: str, device: str) -> Crossing:
    """Return what takes arrays across.

    Args:
        framework: "torch" or "jax".
        device: the rank's, such as "cuda:1".
    """
    return JaxCrossing(device) if framework == "jax" else Crossing(device)
