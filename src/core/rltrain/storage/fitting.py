"""Whether what a file says is what is written there: somebody else may have written it."""

from __future__ import annotations

import functools
import math
import os
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from rltrain.metrics.episodes import EPISODE_SUMS, WINDOW

_LARGEST = 2**53
"""Of whole numbers. Above it, floats skip some."""

_LONGEST = 255
"""Bytes of a file's name."""


def check_fields(kind: type, given: Mapping[str, Any]) -> None:
    """Raise ValueError if values are not of the types that a dataclass declares, or not finite."""
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


def check_state(state: Any) -> None:
    """Check that a state is one that `save_with_state` was given."""
    if not isinstance(state, dict):
        raise ValueError("it is no state")
    for name, is_one in _CONTENTS.items():
        if not is_one(state.get(name)):
            raise ValueError(f"{name} is wrong")


def is_count(value: Any) -> bool:
    """Return whether this counts something."""
    return type(value) is int and 0 <= value <= _LARGEST


def is_number(value: Any) -> bool:
    """Return whether this is a number, be it NaN, or None."""
    whole = type(value) is int and abs(value) <= _LARGEST
    return value is None or whole or isinstance(value, float)


def is_file_name(name: Any) -> bool:
    """Return whether this names a file in a folder, and nothing outside of it."""
    if not isinstance(name, str) or name in ("", ".", "..") or set("/\0") & set(name):
        return False
    try:
        return len(os.fsencode(name)) <= _LONGEST
    except UnicodeEncodeError:
        return False


def _is_window(value: Any) -> bool:
    """Return whether this is what `EpisodeWindow.kept` returns."""
    is_short = isinstance(value, list) and len(value) <= WINDOW
    return is_short and all(
        isinstance(sums, tuple) and len(sums) == EPISODE_SUMS and all(map(is_number, sums))
        for sums in value
    )


def _are_curricula(value: Any) -> bool:
    """Return whether this is what `get_curricula` has returned on each rank."""
    return isinstance(value, list) and all(
        isinstance(one, dict) and all(isinstance(name, str) for name in one) for one in value
    )


def _is_part(value: Any) -> bool:
    """Return whether this is a rank's part, or the length and the digest of one."""
    of_part = isinstance(value, list) and len(value) == 2
    return isinstance(value, bytes) or (
        of_part and is_count(value[0]) and isinstance(value[1], str)
    )


_CONTENTS: Mapping[str, Callable[[Any], bool]] = {
    "iteration": is_count,
    "episode_return": is_number,
    "circumstances": lambda value: isinstance(value, dict),
    "progress": lambda value: (
        isinstance(value, dict)
        and is_count(value.get("iteration"))
        and is_count(value.get("frames"))
        and _is_window(value.get("window"))
    ),
    "ranks": lambda value: isinstance(value, list) and all(map(_is_part, value)),
    "curricula": lambda value: value is None or _are_curricula(value),
    "agent": lambda value: value is None or isinstance(value, dict),
}
"""What every state has, and whether a value can be it."""
