"""Data as bytes that run no code when they are read: messages between ranks, and ranks' states.

The bytes are a mark, the length of a header, the header as JSON, and the bytes of all arrays one
after the other. In the header, null, truth values, numbers and text are themselves, and a list is a
list; all else is an object with one key, which says what it is. What is none of it can be kept as a
pickled object, which can run code where it is built: only a reader who trusts its writer builds it.
What others wrote is bounded: who walks it takes no longer than reading its bytes.
`rltrain_adapters.unpickling` reads pickles of others without running what they name.
"""

from __future__ import annotations

import json
import math
import pickle
import random
import re
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "MOST",
    "NARROW",
    "MalformedData",
    "UnsafePickle",
    "check_generator",
    "check_tree",
    "narrow_dtype",
    "pack_object",
    "pack_state",
    "parse_json",
    "unpack_object",
    "unpack_state",
    "would_run_code",
]

DEEPEST = 100
"""Containers in each other. Python's recursion ends at about a thousand calls."""
MOST = 1_000_000
"""Values, where few bytes may have many: each is counted as often as a walk meets it."""
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)

NARROW = (
    *("bfloat16", "int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float6_e2m3fn"),
    *("float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
"""The types of numbers that jax adds to numpy's, by their names in `ml_dtypes`."""

_DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|[mM]8\[\w+\]|[SU]\d{1,5})")
"""The types of arrays: truth values, numbers, times and text; never Python's objects."""

_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")

_NUMBERS = 624
"""Size of the largest generator, MT19937. Philox has 4, and takes all from 4 on as the end."""

_MARK, _HEAD = b"\x01", 8
"""The first byte, and the bytes of the header's length."""


class MalformedData(ValueError):
    """Bytes are not what one of this module's functions packed."""


class UnsafePickle(pickle.UnpicklingError):
    """A class or function is named that is not known to be data only."""


def would_run_code(error: UnsafePickle) -> str:
    """Return the message for a checkpoint that is not data only; the option goes before it."""
    return f"loading it would run code ({error}). If you trust who wrote it, add --trust."


def check_tree(value: Any, most: int = MOST) -> None:
    """Raise ValueError if a value is deeper than `DEEPEST`, contains itself, or has too many parts.

    What is shared counts as often as a walk meets it, and is visited once.
    """
    known: dict[int, tuple[int, int]] = {}

    def measured(value: Any, depth: int) -> tuple[int, int]:
        """Return how many values there are, and how deep."""
        if not isinstance(value, _CONTAINERS):
            return 1, 0
        size, height = known.get(id(value), (0, 0))
        if not size and depth < DEEPEST:
            known[id(value)] = 1, DEEPEST  # Of what contains itself.
            below = [measured(part, depth + 1) for part in value]
            if isinstance(value, dict):
                below += [measured(part, depth + 1) for part in value.values()]
            size = 1 + sum(each for each, _ in below)
            height = 1 + max((each for _, each in below), default=0)
            known[id(value)] = size, height
        if not size or depth + height > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep, or contains itself")
        if size > most:
            raise ValueError(f"it has more than {most:,} values")
        return size, height

    measured(value, 0)


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says; `ValueError` if it is none, or nested too deeply."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from error
    check_tree(found, len(text))
    return found


def check_generator(state: Any) -> Any:
    """Return the state of one of numpy's generators, if numpy would read only its own memory.

    numpy takes any position in a generator's numbers, and reads beyond them. The state is what
    `BitGenerator.state` or `numpy.random.get_state` has returned.
    """
    if isinstance(state, Mapping):
        inner = state["state"]
        positions = [inner.get("pos", 0), state.get("buffer_pos", 0)]
    else:
        positions = [state[2]]
    if not all(type(position) is int and 0 <= position <= _NUMBERS for position in positions):
        raise MalformedData("not the state of a random generator")
    return state


def _make_generator(state: Any) -> Any:
    """Return a generator of numpy in a state."""
    import numpy as np

    check_generator(state)
    if state["bit_generator"] not in _GENERATORS:
        raise MalformedData("not what was packed: an unknown generator")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def narrow_dtype(name: str) -> Any:
    """Return numpy's type for one of `NARROW`."""
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name))


def _name_of(dtype: Any) -> str | None:
    """Return the name under which `_dtype_of` finds a type; None if its arrays are not data."""
    if dtype.name in NARROW:
        return str(dtype.name)
    return dtype.str if _DTYPE.fullmatch(dtype.str) else None


def _dtype_of(name: Any) -> Any:
    """Return numpy's type of the numbers of an array that is data."""
    import numpy as np

    if isinstance(name, str) and name in NARROW:
        return narrow_dtype(name)
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise MalformedData("not what was packed: an array's type")
    return np.dtype(name)


def pack_object(obj: Any) -> bytes:
    """Return an object as bytes for other ranks, to be read with `unpack_object`.

    It must be data only: numbers, text, containers, numpy arrays, random generators. `TypeError`
    names the class of what is not.
    """
    return _Packer({}, _refuse).pack(obj)


def unpack_object(packed: bytes) -> Any:
    """Return the object that another rank has packed with `pack_object`, or `MalformedData`.

    Bytes after its end are ignored.
    """
    try:
        return _Unpacker(packed, "cpu", {}, trusted=False).unpack()
    except (MalformedData, UnsafePickle) as error:
        raise MalformedData(f"What another rank sent is not data only: {error}.") from error


def pack_state(state: Any, arrays: Mapping[str, Any]) -> bytes:
    """Return a state as bytes that any device can load; equal states give equal bytes.

    Args:
        state: anything that can be pickled. What is not data needs a reader who trusts it.
        arrays: `rltrain.types.Arrays` by framework; their arrays are copied to the host.
    """
    return _Packer(arrays, lambda obj: pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)).pack(state)


def unpack_state(
    packed: bytes, device: str, arrays: Mapping[str, Any], trusted: bool = False
) -> Any:
    """Return the state. Arrays that were on a device are put on this rank's device.

    Args:
        packed: what `pack_state` returned.
        device: this rank's device.
        arrays: by framework.
        trusted: whether to build pickled objects, which may run any code.

    Raises:
        UnsafePickle: it is not trusted, and has a pickled object.
        MalformedData: it is not a state, or has arrays of a framework that is not there.
    """
    return _Unpacker(packed, device, arrays, trusted).unpack()


def _refuse(obj: Any) -> bytes:
    name = _name(type(obj))
    if isinstance(obj, type) or callable(obj):
        name = f"{getattr(obj, '__module__', '?')}.{getattr(obj, '__qualname__', name)}"
    raise TypeError(
        "Ranks send each other data only: numbers, text, containers, numpy arrays. Not this: "
        f"{name}. Send an object's fields as a dict, and a framework's array with "
        "`broadcast` or as a numpy array."
    )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


class _Packer:
    def __init__(self, arrays: Mapping[str, Any], other: Callable[[Any], bytes]) -> None:
        self._arrays, self._other = arrays, other
        self._buffers: list[bytes] = []

    def pack(self, obj: Any) -> bytes:
        try:
            head = json.dumps(self._node(obj), separators=(",", ":")).encode()
        except (RecursionError, ValueError) as error:
            raise TypeError(f"This is not data only: {error}") from error
        return b"".join((_MARK, len(head).to_bytes(_HEAD, "little"), head, *self._buffers))

    def _node(self, obj: Any) -> Any:
        kind = type(obj)
        if obj is None or kind in (bool, int, str, float):
            return obj
        if kind is list:
            return [self._node(each) for each in obj]
        if kind is dict and all(type(key) is str for key in obj):
            return {"dict": {key: self._node(value) for key, value in obj.items()}}
        if kind in _PARTS:
            name, parts_of = _PARTS[kind]
            return {name: [self._node(part) for part in parts_of(obj)]}
        if kind in (bytes, bytearray):
            return {kind.__name__: self._buffer(obj)}
        found = self._array(obj)
        return found or {"object": [_name(kind), self._buffer(self._other(obj))]}

    def _array(self, obj: Any) -> dict[str, Any] | None:
        for framework, arrays in self._arrays.items():
            if arrays.owns(obj):
                array, on_host = arrays.to_host(obj)
                return {"on": [framework, bool(on_host), self._node(array)]}
        if (numpy := sys.modules.get("numpy")) is None:
            return None
        if type(obj) is numpy.ndarray or isinstance(obj, numpy.generic):
            kind = "array" if type(obj) is numpy.ndarray else "scalar"
            if (name := _name_of(obj.dtype)) is None:
                return None
            columns = obj.ndim > 1 and obj.flags.f_contiguous and not obj.flags.c_contiguous
            self._buffers.append(obj.tobytes("F" if columns else "C"))
            return {kind: [name, list(obj.shape), "F" if columns else "C"]}
        if type(obj) is numpy.random.Generator:
            return {"generator": self._node(obj.bit_generator.state)}
        return None

    def _buffer(self, data: bytes | bytearray) -> int:
        self._buffers.append(bytes(data))
        return len(data)


class _Unpacker:
    def __init__(
        self, packed: bytes, device: str, arrays: Mapping[str, Any], trusted: bool
    ) -> None:
        self._packed, self._at = memoryview(packed), 0
        self._device, self._arrays, self._trusted = device, arrays, trusted

    def unpack(self) -> Any:
        try:
            if self._take(1) != _MARK:
                raise MalformedData("not what was packed: another mark")
            size = int.from_bytes(self._take(_HEAD), "little")
            return self._obj(parse_json(bytes(self._take(size))))
        except (UnsafePickle, MalformedData):
            raise
        except Exception as error:
            # numpy, the frameworks and Python's own types refuse wrong contents in many ways.
            raise MalformedData(f"not what was packed ({type(error).__name__})") from error

    def _take(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._packed) - self._at:
            raise MalformedData("not what was packed: it ends too early")
        self._at += size
        return self._packed[self._at - size : self._at]

    def _obj(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._obj(each) for each in node]
        if not isinstance(node, dict):
            return node
        ((name, content),) = node.items()
        match name:
            case "dict":
                return {str(key): self._obj(value) for key, value in content.items()}
            case "bytes":
                return bytes(self._take(content))
            case "bytearray":
                return bytearray(self._take(content))
            case "array":
                return self._array(content)
            case "scalar":
                return self._array(content)[()]
            case "generator":
                return _make_generator(self._obj(content))
            case "on":
                framework, on_host, array = content
                return self._on_device(framework, self._obj(array), on_host)
            case "object":
                what, size = content
                pickled = self._take(size)
                if not self._trusted:
                    raise UnsafePickle(str(what)[:200])
                return pickle.loads(pickled)
            case _ if name in _BUILT:
                return _BUILT[name]([self._obj(part) for part in content])
        raise MalformedData("not what was packed: an unknown kind of data")

    def _array(self, content: list[Any]) -> Any:
        import numpy as np

        name, shape, order = content
        dtype = _dtype_of(name)
        if not all(type(length) is int and length >= 0 for length in shape):
            raise MalformedData("not what was packed: an array's shape")
        buffer = self._take(math.prod(shape) * dtype.itemsize)
        return np.ndarray(shape, dtype, bytes(buffer), order=order).copy(order)

    def _on_device(self, framework: str, array: Any, on_host: bool) -> Any:
        """Return a framework's array, made of an array of numpy."""
        if framework not in self._arrays:
            lacking = f"The state has arrays of {framework}, and no installed backend handles them."
            raise MalformedData(lacking)
        return self._arrays[framework].from_host(array, "cpu" if on_host else self._device)


def _random(parts: list[Any]) -> random.Random:
    generator = random.Random()
    generator.setstate(tuple(parts))
    return generator


_KINDS: tuple[tuple[type, str, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (dict, "items", lambda x: map(list, x.items()), dict),
    (tuple, "tuple", iter, tuple),
    # In an order that does not change from process to process.
    (set, "set", lambda x: sorted(x, key=repr), set),
    (frozenset, "frozenset", lambda x: sorted(x, key=repr), frozenset),
    (complex, "complex", lambda x: (x.real, x.imag), lambda x: complex(*x)),
    (slice, "slice", lambda x: (x.start, x.stop, x.step), lambda x: slice(*x)),
    (deque, "deque", lambda x: (list(x), x.maxlen), lambda x: deque(*x)),
    (OrderedDict, "OrderedDict", lambda x: map(list, x.items()), OrderedDict),
    (Counter, "Counter", lambda x: map(list, x.items()), lambda x: Counter(dict(x))),
    (random.Random, "Random", random.Random.getstate, _random),
)
"""What is made of parts: the key that says so, its parts, and how it is made of them. No range: in
a few bytes, it is as long as its writer likes."""

_PARTS = {kind: (name, parts_of) for kind, name, parts_of, _ in _KINDS}
_BUILT = {name: build for _, name, _, build in _KINDS}
