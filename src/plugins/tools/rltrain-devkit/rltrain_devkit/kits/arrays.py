"""Arrays and models of a framework by its name, for kits that import no framework themselves.

Arrays are of numpy, torch or jax. Models are torch modules or jax pytrees.
"""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


def missing(framework: str) -> str | None:
    """Return why the kits cannot make a framework's arrays and models, or None if they can."""
    if framework in ("jax", "torch"):
        return None
    return f"rltrain_devkit.kits.arrays makes arrays and models of torch and jax, not {framework}"


def array(framework: str, values: Any, dtype: str = "float32", device: str = "cpu") -> Any:
    """Return an array of "numpy", "torch" or "jax".

    Args:
        framework: the array's framework.
        values: a number, nested lists of numbers, or a numpy array.
        dtype: name of the data type, such as "int64". jax converts 64 bits to 32 by default.
        device: the array's device; numpy's arrays are on the host.
    """
    if framework == "numpy":
        return _import("numpy").array(values, dtype)
    if framework == "jax":
        jax, (kind, _, index) = _import("jax"), device.partition(":")
        place = jax.local_devices(backend=kind)[int(index or 0)]
        return jax.device_put(_import("numpy").array(values, dtype), place)
    torch = _torch(framework)
    return torch.tensor(values, dtype=getattr(torch, dtype), device=device)


def dtype_of(framework: str, dtype: str) -> str:
    """Return the dtype to use in a framework in place of another: jax disables 64 bits."""
    return (
        {"float64": "float16", "int64": "int8"}.get(dtype, dtype) if framework == "jax" else dtype
    )


def _import(module: str) -> Any:
    return importlib.import_module(module)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Yield a list that collects the names of the programs that jax compiles in the context."""
    jax = _import("jax")
    logger, found = logging.getLogger("jax"), list[str]()
    handler = logging.Handler()

    def note(record: logging.LogRecord) -> bool:
        compiled = re.match(r"Finished XLA compilation of (\S+)", record.getMessage())
        found.extend(compiled.groups() if compiled else ())
        return False  # This handler prints nothing.

    handler.addFilter(note)
    logger.addHandler(handler)
    try:
        with jax.log_compiles():
            yield found
    finally:
        logger.removeHandler(handler)


def _torch(framework: str) -> Any:
    if framework != "torch":
        raise NotImplementedError(missing(framework) or f"This is not made for {framework}.")
    return _import("torch")


def to_numpy(x: Any) -> Any:
    """Return a numpy copy of any framework's array."""
    if framework_of(x) == "torch":
        x = x.detach().cpu().numpy()
    return _import("numpy").array(x)


def framework_of(x: Any) -> str:
    """Return the package of an object's type: "numpy", "torch", "jax", "builtins", ..."""
    package = type(x).__module__.partition(".")[0]
    return "jax" if package == "jaxlib" else package


def form(x: Any) -> str:
    """Describe an array, such as "torch float32[4, 3]"; for other objects return the type."""
    if not hasattr(x, "dtype"):
        return f"{framework_of(x)} {type(x).__name__}"
    return f"{framework_of(x)} {str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


def draw(framework: str, device: str = "cpu") -> list[float]:
    """Return numbers drawn from a framework's global generator for a device; jax has none."""
    drawn: list[float] = _torch(framework).rand(4, device=device).tolist()
    return drawn


_PARAMETERS: Mapping[str, tuple[list[int], str]] = {
    "weight": ([2, 3], "float32"),
    "scale": ([], "float64"),
    "bias": ([3], "float32"),
}
_BUFFERS: Mapping[str, tuple[list[int], str]] = {"mean": ([3], "float32"), "count": ([], "int64")}


def small_model(framework: str, value: float, device: str = "cpu") -> Any:
    """Return a model with parameters and buffers of several shapes and dtypes.

    Returns:
        For torch a module with its own method `act`, like the models of RL libraries; for jax a
        pytree.
    """
    full = functools.partial(_full, framework, value, device)
    if framework == "jax":
        return {
            part: {name: full(*form) for name, form in arrays.items()}
            for part, arrays in (("parameters", _PARAMETERS), ("buffers", _BUFFERS))
        }
    torch = _torch(framework)
    module: Any = torch.nn.Module

    class SmallModel(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, form in _PARAMETERS.items():
                self.register_parameter(name, torch.nn.Parameter(full(*form)))
            for name, form in _BUFFERS.items():
                self.register_buffer(name, full(*form))

        def act(self, x: Any) -> Any:
            return (x @ self.weight) * self.scale + self.bias

    return SmallModel()


def _full(framework: str, value: float, device: str, shape: list[int], dtype: str) -> Any:
    full = _import("numpy").full(shape, value)
    return array(framework, full, dtype_of(framework, dtype), device)


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


def fill(x: Any, value: float) -> None:
    """Write a value into all of a torch tensor, in place."""
    x.detach().fill_(value)


def nudge(x: Any) -> None:
    """Add one to the last element of a torch tensor, in place."""
    x.detach().view(-1)[-1:].add_(1)
