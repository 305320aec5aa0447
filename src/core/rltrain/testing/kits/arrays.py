"""Arrays and models of a framework by its name, for kits that import no framework themselves.

Arrays are numpy's and torch's, models are torch's; jax's pytrees are not made here yet.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

__all__ = [
    "array",
    "buffers",
    "draw",
    "fill",
    "form",
    "framework_of",
    "missing",
    "nudge",
    "parameter",
    "parameters",
    "small_model",
    "to_numpy",
]


def missing(framework: str) -> str | None:
    """Return what keeps the kits from making a framework's arrays and models, or None."""
    if framework == "torch":
        return None
    return f"rltrain.testing.kits.arrays makes arrays and models of torch, not yet of {framework}"


def array(framework: str, values: Any, dtype: str = "float32", device: str = "cpu") -> Any:
    """Return an array of "numpy" or "torch".

    Args:
        framework: whose array.
        values: a number, nested lists of numbers, or a numpy array.
        dtype: name of the data type, such as "int64".
        device: where it lies; numpy's lie on the host.

    Raises:
        NotImplementedError: the framework is another one.
    """
    if framework == "numpy":
        return importlib.import_module("numpy").array(values, dtype)
    torch = _torch(framework)
    return torch.tensor(values, dtype=getattr(torch, dtype), device=device)


def _torch(framework: str) -> Any:
    reason = missing(framework)
    if reason is not None:
        raise NotImplementedError(f"{reason}.")
    return importlib.import_module("torch")


def to_numpy(x: Any) -> Any:
    """Return a copy of any framework's array as one of numpy's."""
    if framework_of(x) == "torch":
        x = x.detach().cpu().numpy()
    return importlib.import_module("numpy").array(x)


def framework_of(x: Any) -> str:
    """Return whose array, or what else, something is: "numpy", "torch", "jax", "builtins"."""
    package = type(x).__module__.partition(".")[0]
    return "jax" if package == "jaxlib" else package


def form(x: Any) -> str:
    """Return kind, dtype and shape of an array, such as "torch float32[4, 3]"; else the kind."""
    if not hasattr(x, "dtype"):
        return f"{framework_of(x)} {type(x).__name__}"
    return f"{framework_of(x)} {str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


def draw(framework: str, device: str = "cpu") -> list[float]:
    """Return numbers drawn from the framework's global generator of a device."""
    drawn: list[float] = _torch(framework).rand(4, device=device).tolist()
    return drawn


def small_model(framework: str, value: float, device: str = "cpu") -> Any:
    """Return a model with parameters and buffers of several shapes and dtypes.

    Args:
        framework: whose model.
        value: what each of its numbers is.
        device: where it lies.

    Returns:
        For torch a module with a method of its own, `act`, as the models of RL libraries have.

    Raises:
        NotImplementedError: the framework is another one.
    """
    torch = _torch(framework)
    module: Any = torch.nn.Module

    class SmallModel(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, shape, dtype in (
                ("weight", [2, 3], "float32"),
                ("scale", [], "float64"),
                ("bias", [3], "float32"),
            ):
                made = torch.full(shape, value, dtype=getattr(torch, dtype), device=device)
                self.register_parameter(name, torch.nn.Parameter(made))
            self.register_buffer("mean", torch.full([3], value, device=device))
            self.register_buffer("count", torch.tensor(int(value), device=device))

        def act(self, x: Any) -> Any:
            return (x @ self.weight) * self.scale + self.bias

    return SmallModel()


def parameter(framework: str, values: Any, dtype: str = "float32") -> Any:
    """Return what an optimiser steps, made as `array` makes arrays."""
    return _torch(framework).nn.Parameter(array(framework, values, dtype))


def parameters(model: Any) -> Mapping[str, Any]:
    """Return a model's parameters by name."""
    return dict(model.named_parameters())


def buffers(model: Any) -> Mapping[str, Any]:
    """Return what else belongs to a model's state, by name: statistics and counts."""
    return dict(model.named_buffers())


def fill(x: Any, value: float) -> None:
    """Write a value into all of an array, in place."""
    x.detach().fill_(value)


def nudge(x: Any) -> None:
    """Add one to the last element of an array, in place."""
    x.detach().view(-1)[-1:].add_(1)
