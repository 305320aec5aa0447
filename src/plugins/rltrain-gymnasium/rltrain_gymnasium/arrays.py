"""What array namespaces do not share: making arrays on a device, and random numbers.

One object of these classes belongs to one environment, with a generator of its own, so that no
environment touches the global generators. Another framework is one more class.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Arrays", "Kind", "NumpyArrays", "TorchArrays", "make_arrays"]

Kind = Literal["float", "int", "bool"]
"""float32, int64 or bool."""


class Arrays(Protocol):
    """Makes arrays of one framework on one device."""

    device: str
    xp: Any
    """The array namespace: what is the same in all of them."""

    def asarray(self, values: Any, kind: Kind) -> Any:
        """Return values as an array of the kind, without a copy where they are one already."""
        ...

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return an array of the framework, or a nested sequence, as a numpy array."""
        ...

    def copy(self, array: Any) -> Any:
        """Return a copy of an array."""
        ...

    def seed(self, seed: int | None) -> None:
        """Begin the generator's sequence anew; with None, at a place that nobody can foretell."""
        ...

    def uniform(self, *shape: int) -> Any:
        """Draw float32 numbers from [0, 1)."""
        ...

    def get_generator_state(self) -> Any:
        """Return where the generator is in its sequence."""
        ...

    def set_generator_state(self, state: Any) -> None:
        """Go to a place that `get_generator_state` returned."""
        ...


class NumpyArrays:
    """Numpy arrays."""

    def __init__(self, device: str = "cpu") -> None:
        if device != "cpu":
            raise ValueError(f"numpy arrays live on the cpu, not on {device!r}")
        self.device = device
        self.xp: Any = np
        self.seed(None)

    def asarray(self, values: Any, kind: Kind) -> Any:
        """Return values as an array of the kind."""
        return np.asarray(
            values, dtype={"float": np.float32, "int": np.int64, "bool": np.bool_}[kind]
        )

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return values as an array."""
        return np.asarray(values)

    def copy(self, array: Any) -> Any:
        """Return a copy of an array."""
        return array.copy()

    def seed(self, seed: int | None) -> None:
        """Begin the generator's sequence anew."""
        self._generator = np.random.default_rng(seed)

    def uniform(self, *shape: int) -> Any:
        """Draw float32 numbers from [0, 1)."""
        return self._generator.random(shape, dtype=np.float32)

    def get_generator_state(self) -> Any:
        """Return the bit generator's state."""
        return self._generator.bit_generator.state

    def set_generator_state(self, state: Any) -> None:
        """Set the bit generator's state."""
        self._generator.bit_generator.state = state


class TorchArrays:
    """Torch tensors on one device."""

    def __init__(self, device: str = "cpu") -> None:
        import torch

        self.device = device
        self.xp: Any = torch
        self._kinds = {"float": torch.float32, "int": torch.int64, "bool": torch.bool}
        self._generator = torch.Generator(device)
        self.seed(None)

    def asarray(self, values: Any, kind: Kind) -> Any:
        """Return values as a tensor of the kind on the device, without their gradient."""
        return self.xp.as_tensor(values, dtype=self._kinds[kind], device=self.device).detach()

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Copy a tensor to the host."""
        if self.xp.is_tensor(values):
            return np.asarray(values.detach().cpu().numpy())
        return np.asarray(values)

    def copy(self, array: Any) -> Any:
        """Return a copy of a tensor."""
        return array.clone()

    def seed(self, seed: int | None) -> None:
        """Begin the generator's sequence anew."""
        self._generator.manual_seed(secrets.randbits(31) if seed is None else seed)

    def uniform(self, *shape: int) -> Any:
        """Draw float32 numbers from [0, 1), on the device."""
        return self.xp.rand(
            shape, generator=self._generator, dtype=self.xp.float32, device=self.device
        )

    def get_generator_state(self) -> Any:
        """Return the generator's state, a tensor of bytes on the host."""
        return self._generator.get_state()

    def set_generator_state(self, state: Any) -> None:
        """Set the generator's state."""
        self._generator.set_state(state.cpu())


_FRAMEWORKS: dict[str, type[NumpyArrays] | type[TorchArrays]] = {
    "numpy": NumpyArrays,
    "torch": TorchArrays,
}


def make_arrays(framework: str, device: str = "cpu") -> Arrays:
    """Return what makes arrays of a framework on a device.

    Raises:
        ValueError: the framework is not known, or does not know the device.
    """
    if framework not in _FRAMEWORKS:
        raise ValueError(f"framework={framework!r} is none of {', '.join(_FRAMEWORKS)}")
    return _FRAMEWORKS[framework](device)
