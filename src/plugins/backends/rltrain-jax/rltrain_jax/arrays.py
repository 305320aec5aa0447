"""jax's arrays, as the core handles them. Importing this module does not import jax."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rltrain_jax.devices import local_device


class JaxArrays:
    """See `rltrain.types.Arrays`."""

    def owns(self, x: Any) -> bool:
        """Return whether an object is an array of jax."""
        package = type(x).__module__.partition(".")[0]
        return package in ("jax", "jaxlib") and isinstance(x, sys.modules["jax"].Array)

    def to_host(self, x: Any) -> tuple[Any, bool]:
        """Return an array as one of numpy, and whether it was on the CPU."""
        import numpy as np

        return np.array(x), next(iter(x.devices())).platform == "cpu"

    def view_on_host(self, x: Any) -> Any:
        """Return the array: on the CPU too, jax computes while the host continues."""
        return x

    def from_host(self, array: Any, device: str) -> Any:
        """Return a numpy array as one of jax, on a device."""
        import jax

        # Copied: on the CPU jax may share the caller's memory.
        return jax.device_put(array.copy(), local_device(device))

    def zeros_like(self, x: Any) -> Any:
        """Return zeros like an array."""
        import jax.numpy as jnp

        return jnp.zeros_like(x)

    def floats(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        """Return arrays of one number each as floats, in one copy to the host."""
        import jax

        return tuple(map(float, jax.device_get(values)))

    def finite(self, x: Any) -> Any:
        """Return an array with 0 in the place of NaN and infinity."""
        import jax.numpy as jnp

        return jnp.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)

    def norms(self, gradients: Any) -> Any:
        """Return the largest absolute values of the leaves."""
        import jax

        leaves = jax.tree.leaves(gradients)
        return _compiled(_peaks)(leaves) if leaves else None

    def names(self, parameters: Any, models: Mapping[str, Any]) -> list[str]:
        """Return the paths of the leaves, such as "['policy']['params']['kernel']"."""
        import jax

        named, _ = jax.tree_util.tree_flatten_with_path(parameters)
        return [jax.tree_util.keystr(path) for path, _ in named]

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, compiled for each shape of its arguments."""
        return _compiled(function)


def _peaks(leaves: list[Any]) -> Any:
    import jax.numpy as jnp

    return jnp.stack([abs(leaf).max(initial=0).astype(jnp.float32) for leaf in leaves])


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    program: Callable[..., Any] = jax.jit(function)
    return program
