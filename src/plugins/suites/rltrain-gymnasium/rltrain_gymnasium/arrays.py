"""What numpy, torch and jax do differently: making arrays on a device, and random numbers.

Each environment has its own instance with its own random generator, so that the global generators
stay untouched. To support another framework, add a class.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["float", "int", "bool", "byte"]
"""float32, int64 (int32 for jax, which stays in its 32-bit mode), bool or uint8."""

Uniform = Callable[..., Any]
"""Given a shape, samples float32 numbers from [0, 1)."""


_NUMPY = {"float": np.float32, "int": np.int64, "bool": np.bool_, "byte": np.uint8}


class Arrays:
    """Makes arrays of one framework on one device. These are numpy's; others are below."""

    def __init__(self, device: str = "cpu") -> None:
        if device != "cpu":
            raise ValueError(f"device={device!r}: numpy arrays are always on the cpu")
        self.device = device
        # The array namespace (numpy, torch or jax.numpy), for the functions that all three share.
        self.xp: Any = np
        self.seed(None)

    def asarray(self, values: Any, kind: Kind) -> Any:
        """Return values as an array of the kind; numpy and torch do not copy one that fits."""
        return np.asarray(values, dtype=_NUMPY[kind])

    def new(self, values: npt.NDArray[Any], kind: Kind) -> Any:
        """Return values as an array of the kind that shares no memory with them."""
        return np.array(values, dtype=_NUMPY[kind])

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Convert an array of the framework, or a nested sequence, to numpy."""
        return np.asarray(values)

    def copy(self, array: Any) -> Any:
        """Return a copy of an array."""
        return array.copy()

    def seed(self, seed: int | None) -> None:
        """Seed the generator; None means a random seed."""
        self._generator: Any = np.random.default_rng(seed)

    def compiled(self, function: Callable[..., Any], *fixed: Hashable) -> Callable[..., Any]:
        """Return a function that takes only arrays; jax compiles it to one program.

        It is called as `function(uniform, *fixed, *arrays)`, and must sample with `uniform` and
        have no other side effect: jax traces it once, and then runs only the compiled program,
        which callers with equal `fixed` share.
        """
        return partial(function, self._uniform, *fixed)

    def get_generator_state(self) -> Any:
        """Return the generator's state."""
        return self._generator.bit_generator.state

    def set_generator_state(self, state: Any) -> None:
        """Restore a state that `get_generator_state` returned."""
        self._generator.bit_generator.state = state

    def _uniform(self, *shape: int) -> Any:
        return self._generator.random(shape, dtype=np.float32)


class _TorchArrays(Arrays):
    def __init__(self, device: str = "cpu") -> None:
        import torch

        self.device = device
        self.xp: Any = torch
        kinds = torch.float32, torch.int64, torch.bool, torch.uint8
        self._kinds = dict(zip(_NUMPY, kinds, strict=True))
        self._generator = torch.Generator(device)
        self.seed(None)

    def asarray(self, values: Any, kind: Kind) -> Any:
        return self.xp.as_tensor(values, dtype=self._kinds[kind], device=self.device).detach()

    def new(self, values: npt.NDArray[Any], kind: Kind) -> Any:
        return self.xp.tensor(values, dtype=self._kinds[kind], device=self.device)

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        if self.xp.is_tensor(values):
            return np.asarray(values.detach().cpu().numpy())
        return np.asarray(values)

    def copy(self, array: Any) -> Any:
        return array.clone()

    def seed(self, seed: int | None) -> None:
        self._generator.manual_seed(secrets.randbits(31) if seed is None else seed)

    def _uniform(self, *shape: int) -> Any:
        return self.xp.rand(
            shape, generator=self._generator, dtype=self.xp.float32, device=self.device
        )

    def get_generator_state(self) -> Any:
        return self._generator.get_state()  # A uint8 tensor on the CPU.

    def set_generator_state(self, state: Any) -> None:
        self._generator.set_state(state.cpu())


class _JaxArrays(Arrays):
    def __init__(self, device: str = "cpu") -> None:
        import jax

        from rltrain_jax.devices import local_device

        self.device = device
        self.xp: Any = jax.numpy
        self._jax = jax
        self._device = local_device(device)
        self._kinds = {**_NUMPY, "int": np.int32}
        self._key: Any = None
        self.seed(None)

    def asarray(self, values: Any, kind: Kind) -> Any:
        dtype = self._kinds[kind]
        if not isinstance(values, self._jax.Array):
            # Copied: jax may share the caller's memory, which the caller may write to later.
            return self._jax.device_put(np.array(values, dtype), self._device)
        # While tracing, a value is on no device.
        if isinstance(values, self._jax.core.Tracer) or values.device == self._device:
            return values if values.dtype == dtype else values.astype(dtype)
        return self.asarray(self._jax.device_put(values, self._device), kind)

    def new(self, values: npt.NDArray[Any], kind: Kind) -> Any:
        return self.asarray(values, kind)

    def copy(self, array: Any) -> Any:
        return array  # It is immutable.

    def seed(self, seed: int | None) -> None:
        seed = secrets.randbits(31) if seed is None else seed
        self.set_generator_state(self._jax.random.PRNGKey(seed))

    def compiled(self, function: Callable[..., Any], *fixed: Hashable) -> Callable[..., Any]:
        program = _program(function, *fixed)

        def call(*arrays: Any) -> Any:
            self._key, result = program(self._key, *arrays)
            return result

        return call

    def get_generator_state(self) -> Any:
        return self._key

    def set_generator_state(self, state: Any) -> None:
        self._key = self._jax.device_put(state, self._device)


@cache
def _program(function: Callable[..., Any], *fixed: Hashable) -> Callable[..., tuple[Any, Any]]:
    """Compile a program that maps a key and arrays to the next key and the function's result.

    Cached, because compiling takes longer than thousands of steps: equal environments share it.
    """
    import jax

    def pure(key: Any, *arrays: Any) -> tuple[Any, Any]:
        keys = [key]

        def uniform(*shape: int) -> Any:
            keys[0], own = jax.random.split(keys[0])
            return jax.random.uniform(own, shape, np.float32)

        result = function(uniform, *fixed, *arrays)
        return keys[0], result

    return jax.jit(pure)


_FRAMEWORKS: dict[str, type[Arrays]] = {
    "numpy": Arrays,
    "torch": _TorchArrays,
    "jax": _JaxArrays,
}


def make_arrays(framework: str, device: str = "cpu") -> Arrays:
    """Return the `Arrays` of a framework on a device."""
    if framework not in _FRAMEWORKS:
        raise ValueError(f"framework={framework!r}: must be one of {', '.join(_FRAMEWORKS)}")
    return _FRAMEWORKS[framework](device)
