"""Pickled files and messages, read without running what a stranger wrote into them."""

from __future__ import annotations

import io
import pickle
from typing import Any

__all__ = [
    "DataUnpickler",
    "UnsafePickle",
    "load_data",
    "pack_object",
    "unpack_object",
    "would_run_code",
]

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
    """A class or function is named that is not known to be data only."""


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
        # ml_dtypes' classes are further types of numbers, such as bfloat16. A name with a dot could
        # reach what its modules import.
        of_numbers = module == "ml_dtypes" and "." not in name
        if not (self._trusted or (module, name) in _DATA or of_numbers):
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


def pack_object(obj: Any) -> bytes:
    """Return an object as bytes for other ranks, to be read with `unpack_object`.

    Args:
        obj: data only: numbers, text, containers, numpy arrays, states of random generators.

    Raises:
        TypeError: it is not, so the ranks would refuse it. The message names the class.
    """
    try:
        packed = pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)
        load_data(packed)
    except (UnsafePickle, pickle.PicklingError, AttributeError) as error:
        raise TypeError(
            "Ranks send each other data only: numbers, text, containers, numpy arrays. Not this: "
            f"{error}. Send an object's fields as a dict, and a framework's array with "
            "`broadcast` or as a numpy array."
        ) from error
    return packed


def unpack_object(packed: bytes) -> Any:
    """Return the object that another rank has packed with `pack_object`.

    Raises:
        UnsafePickle: it is not data only: it was not packed with `pack_object`.
    """
    try:
        return load_data(packed)
    except UnsafePickle as error:
        raise UnsafePickle(f"What another rank sent would run code: {error}.") from error
