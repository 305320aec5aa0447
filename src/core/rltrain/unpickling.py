"""Pickled files, read without running what a stranger wrote into them."""

from __future__ import annotations

import io
import pickle
from typing import Any

__all__ = ["DataUnpickler", "UnsafePickle", "load_data", "would_run_code"]

_BUILTINS = (
    *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"),
    *("range", "set", "slice", "str", "tuple"),
)
_GENERATORS = ("MT19937", "PCG64", "Philox", "SFC64")

_DATA = {
    *(("builtins", name) for name in _BUILTINS),
    *(("collections", name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
    ("random", "Random"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *(("numpy._core.multiarray", name) for name in ("_reconstruct", "scalar")),
    *(("numpy.core.multiarray", name) for name in ("_reconstruct", "scalar")),  # numpy 1
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.numeric", "_frombuffer"),
    *(
        ("numpy.random._pickle", f"__{name}_ctor")
        for name in ("bit_generator", "generator", "randomstate")
    ),
    *((f"numpy.random._{name.lower()}", name) for name in _GENERATORS),
    ("numpy.random._pcg64", "PCG64DXSM"),
    ("numpy.random.bit_generator", "SeedSequence"),
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
}
"""Classes and functions that only build data: containers, arrays, random generators."""


class UnsafePickle(pickle.UnpicklingError):
    """A file names a class or function that is not known to be data only."""


def would_run_code(error: UnsafePickle) -> str:
    """Return the message for a checkpoint that is not data only; the option goes before it."""
    return (
        f"loading it would run code ({error}). If you trust who wrote it, add --trust-checkpoint."
    )


class DataUnpickler(pickle.Unpickler):
    """Builds data, and refuses everything else.

    Python's documentation recommends this way: "Restricting Globals" of `pickle`.
    """

    def __init__(self, file: io.BytesIO, trusted: bool = False) -> None:
        """Read from a file.

        Args:
            file: what was pickled.
            trusted: whether to build whatever the file names, which may run any code.
        """
        super().__init__(file)
        self._trusted = trusted

    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function.

        Raises:
            UnsafePickle: the file is not trusted, and it is not known to be data only.
        """
        # ml_dtypes has nothing but further types of numbers, such as bfloat16.
        is_data = (module, name) in _DATA or module == "ml_dtypes"
        if not self._trusted and not is_data:
            raise UnsafePickle(f"{module}.{name}")
        return super().find_class(module, name)


def load_data(data: bytes, trusted: bool = False) -> Any:
    """Unpickle data.

    Args:
        data: what was pickled.
        trusted: whether to build whatever it names, which may run any code.

    Raises:
        UnsafePickle: it is not trusted, and it names what is not known to be data only.
        Exception: whatever damaged bytes cause.
    """
    return DataUnpickler(io.BytesIO(data), trusted).load()
