"""Arrays and models of a framework by its name, for kits that import no framework themselves.

Arrays are of numpy, torch or jax. Models are torch modules or jax pytrees.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def missing(framework: str) -> str | None:
    """Return why the kits cannot make a framework's arrays and models, or None if they can."""
    return None if framework in ("jax", "torch") else f"kits are for torch and jax, not {framework}"


def array(framework: str, values: Any, dtype: str = "float32", device: str = "cpu") -> Any:
    """Return an array of numbers, of "numpy", "torch" or "jax"; numpy's are on the host."""
    if framework == "numpy":
        return np.array(values, dtype)
    if framework == "jax":
        jax, (kind, _, index) = importlib.import_module("jax"), device.partition(":")
        place = jax.local_devices(backend=kind)[int(index or 0)]
        return jax.device_put(np.array(values, dtype), place)
    torch = _torch(framework)
    return torch.tensor(values, dtype=getattr(torch, dtype), device=device)


def dtype_of(framework: str, dtype: str) -> str:
    """Return the dtype to use in a framework in place of another: jax disables 64 bits."""
    return (
        {"float64": "float16", "int64": "int8"}.get(dtype, dtype) if framework == "jax" else dtype
    )


def _torch(framework: str) -> Any:
    if framework != "torch":
        raise NotImplementedError(missing(framework) or f"This is not made for {framework}.")
    return importlib.import_module("torch")


def to_numpy(x: Any) -> Any:
    """Return a numpy copy of any framework's array."""
    if framework_of(x) == "torch":
        x = x.detach().cpu().numpy()
    return np.array(x)


def framework_of(x: Any) -> str:
    """Return the package of an object's type: "numpy", "torch", "jax", "builtins", ..."""
    package = type(x).__module__.partition(".")[0]
    return "jax" if package == "jaxlib" else package


def form(x: Any) -> str:
    """Describe an array, such as "torch float32[4, 3]"; for other objects return the type."""
    if not hasattr(x, "dtype"):
        return f"{framework_of(x)} {type(x).__name__}"
    return f"{framework_of(x)} {str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


def sample(framework: str, device: str = "cpu") -> list[float]:
    """Return numbers of a framework's global generator for a device; jax has none."""
    numbers: list[float] = _torch(framework).rand(4, device=device).tolist()
    return numbers


_PARAMETERS: Mapping[str, tuple[list[int], str]] = {
    "weight": ([2, 3], "float32"),
    "scale": ([], "float64"),
    "bias": ([3], "float32"),
}
_BUFFERS: Mapping[str, tuple[list[int], str]] = {"mean": ([3], "float32"), "count": ([], "int64")}


def small_model(framework: str, value: float, device: str = "cpu") -> Any:
    """Return a model with parameters and buffers of several shapes and dtypes.

    For torch it is a module with a method `act` of its own, as RL libraries have; for jax a pytree.
    """
    parts = [
        {
            name: array(framework, np.full(shape, value), dtype_of(framework, dtype), device)
            for name, (shape, dtype) in forms.items()
        }
        for forms in (_PARAMETERS, _BUFFERS)
    ]
    if framework == "jax":
        return dict(zip(("parameters", "buffers"), parts, strict=True))
    torch = _torch(framework)
    module: Any = torch.nn.Module

    class SmallModel(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, x in parts[0].items():
                self.register_parameter(name, torch.nn.Parameter(x))
            for name, x in parts[1].items():
                self.register_buffer(name, x)

        def act(self, x: Any) -> Any:
            return (x @ self.weight) * self.scale + self.bias

    return SmallModel()


def parameter(framework: str, values: Any, dtype: str = "float32") -> Any:
    """Return a parameter for an optimizer, with the same arguments as `array`."""
    made = array(framework, values, dtype)
    return made if framework == "jax" else _torch(framework).nn.Parameter(made)


def interface(model: Any) -> set[str]:
    """Return a model's public names; for a pytree, its names with their dtypes and shapes."""
    if not isinstance(model, dict):
        return {name for name in dir(model) if not name.startswith("_")}
    named = ((f"{part}.{name}", x) for part, arrays in model.items() for name, x in arrays.items())
    return {f"{name}: {form(x)}" for name, x in named}


def parameters(model: Any) -> Mapping[str, Any]:
    """Return a model's parameters by name."""
    return model["parameters"] if isinstance(model, dict) else dict(model.named_parameters())


def buffers(model: Any) -> Mapping[str, Any]:
    """Return the rest of a model's state by name: statistics and counts."""
    return model["buffers"] if isinstance(model, dict) else dict(model.named_buffers())
