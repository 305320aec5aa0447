"""torch's tensors, as the core handles them. Importing this module does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["TorchArrays"]


class TorchArrays:
    """See `rltrain.types.Arrays`."""

    def owns(self, x: Any) -> bool:
        """Return whether an object is a tensor."""
        return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach")

    def to_host(self, x: Any) -> tuple[Any, bool]:
        """Return a tensor as an array of numpy, and whether it was on the CPU."""
        return x.detach().cpu().numpy(), x.device.type == "cpu"

    def from_host(self, array: Any, device: str) -> Any:
        """Return a numpy array as a tensor on a device."""
        import torch

        return torch.from_numpy(array.copy()).to(device)

    def zeros_like(self, x: Any) -> Any:
        """Return zeros like a tensor."""
        import torch

        return torch.zeros_like(x)

    def floats(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        """Return tensors of one number each as floats, in one copy to the host."""
        import torch

        return tuple(torch.stack([x.double() for x in values]).tolist())

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function itself: compiling would take longer than its small operators."""
        return function
