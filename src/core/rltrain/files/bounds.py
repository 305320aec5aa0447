"""The bounds of data that others wrote: how much of it, which of numpy's kinds, and no pickles.

Who walks what is within them takes no longer than reading its bytes.
`rltrain_adapters.unpickling` reads pickles of others without running what they name.
"""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Mapping
from typing import Any

DEEPEST = 100
"""Containers in each other. Python's recursion ends at about a thousand calls."""
MOST = 1_000_000
"""Values, where few bytes may have many: each is counted as often as a walk meets it."""
_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)

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


class MalformedData(ValueError):
    """Bytes are not what one of this module's functions packed."""


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


def make_generator(state: Any) -> Any:
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


def name_of(dtype: Any) -> str | None:
    """Return the name under which `dtype_of` finds a type; None if its arrays are not data."""
    if dtype.name in NARROW:
        return str(dtype.name)
    return dtype.str if _DTYPE.fullmatch(dtype.str) else None


def dtype_of(name: Any) -> Any:
    """Return numpy's type of the numbers of an array that is data."""
    import numpy as np

    if isinstance(name, str) and name in NARROW:
        return narrow_dtype(name)
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise MalformedData("not what was packed: an array's type")
    return np.dtype(name)
