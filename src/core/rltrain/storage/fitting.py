"""Whether what a file says fits the fields of a dataclass: somebody else may have written it."""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

__all__ = ["check_fields"]

_LARGEST = 2**53
"""Of whole numbers. Above it, floats skip some."""


def check_fields(kind: type, given: Mapping[str, Any]) -> None:
    """Check that values are of the types that a dataclass declares, and finite.

    Raises:
        ValueError: one is not.
    """
    hints = _hints(kind)
    for name, value in given.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} is {value!r:.60}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is tuple:
        return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
    if origin is Mapping:  # Of names to numbers; null is one that was not finite.
        return isinstance(value, dict) and all(x is None or _fits(x, float) for x in value.values())
    if hint is float:
        return _fits(value, int) or (isinstance(value, float) and math.isfinite(value))
    if hint is int:
        return type(value) is int and abs(value) <= _LARGEST
    return isinstance(value, hint)
