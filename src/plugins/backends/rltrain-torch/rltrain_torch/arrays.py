"""torch's tensors, as the core handles them. Importing this module does not import torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any


class TorchArrays:
    """See `rltrain.types.Arrays`."""

    def owns(self, x: Any) -> bool:
        """Return whether an object is a tensor."""
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(x, torch.Tensor)

    def to_host(self, x: Any) -> tuple[Any, bool]:
        """Return a tensor as an array of numpy, and whether it was on the CPU."""
        return x.detach().cpu().numpy(), x.device.type == "cpu"

    def view_on_host(self, x: Any) -> Any:
        """Return a numpy array that shares the memory of a tensor on the CPU."""
        if not self.owns(x) or not x.is_cpu:
            return x
        try:
            return x.detach().numpy()
        except TypeError:  # numpy has no bfloat16.
            return x

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

    def finite(self, x: Any) -> Any:
        """Return a tensor with 0 in the place of NaN and infinity."""
        import torch

        return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)

    def norms(self, gradients: Any) -> Any:
        """Return the 2-norms of gradients: the fastest, but one above 1e19 overflows."""
        import torch

        given = [index for index, gradient in enumerate(gradients) if gradient is not None]
        if not given:
            return None
        with torch.no_grad():
            here = (gradients[index] for index in given)
            # Half precision would overflow much earlier.
            wide = [x.float() if x.dtype.itemsize < 4 else x for x in here]
            norms = torch.stack(torch._foreach_norm(wide)).float()
        if len(given) == len(gradients):
            return norms
        return norms.new_zeros(len(gradients)).index_copy(
            0, torch.tensor(given, device=norms.device), norms
        )

    def names(self, parameters: Any, models: Mapping[str, Any]) -> list[str]:
        """Return names such as "actor.0.weight", where a model has the parameter."""
        named = {
            id(parameter): f"{role}.{name}"
            for role, model in models.items()
            for name, parameter in model.named_parameters()
        }
        return [named.get(id(x), f"parameter {index}") for index, x in enumerate(parameters)]

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function itself: compiling would take longer than its small operators."""
        return function
