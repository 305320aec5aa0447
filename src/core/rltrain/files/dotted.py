"""Nested options by dotted key: read, set, flatten, merge."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from rltrain.errors import UsageError

MISSING = object()
"""What `get_dotted` returns by default if there is no value."""


def get_dotted(options: Any, key: str, default: Any = MISSING) -> Any:
    """Return the value at a dotted key; parts that are numbers index lists."""
    for part in key.split("."):
        if isinstance(options, Mapping) and part in options:
            options = options[part]
        elif isinstance(options, list) and part.isdigit() and int(part) < len(options):
            options = options[int(part)]
        else:
            return default
    return options


def set_dotted(options: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at a dotted key; create missing mappings on the way."""
    *parents, last = key.split(".")
    node: Any = options
    for part in parents:
        child = get_dotted(node, part, None)
        if child is None and isinstance(node, dict):
            child = node[part] = {}
        node = child
    if isinstance(node, dict):
        node[last] = value
    elif isinstance(node, list) and last.isdigit() and int(last) < len(node):
        node[int(last)] = value
    else:
        raise UsageError(
            f"{key}: cannot be set: the options have a shorter list, or a plain value, at "
            f"{'.'.join(parents)}. Set that option as a whole."
        )


def overlaid(options: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return options merged with overrides, mapping by mapping; lists are replaced as a whole."""
    result = dict(options)
    for name, value in over.items():
        below = result.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[name] = overlaid(below, value)
        else:
            result[name] = copy.deepcopy(value)
    return result


def flatten(
    options: Mapping[str, Any], prefix: str = "", known: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for every leaf of nested or dotted options, each with the prefix.

    A mapping that replaces a value of `known` options that is not a mapping is a leaf.
    """
    for name, value in options.items():
        key = f"{prefix}{name}"
        replaces = known is not None and not isinstance(get_dotted(known, key, {}), Mapping)
        if isinstance(value, Mapping) and value and not replaces:
            yield from flatten(value, f"{key}.", known)
        else:
            yield key, value
        if known is None and isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, Mapping):
                    yield from flatten(item, f"{key}.{index}.")


def leaves(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for every value that is not a mapping; lists are values."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def texts(options: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted key, text) for all that is neither a number, true or false, nor null.

    Names in mappings count too: a library may use them.
    """
    if isinstance(options, Mapping):
        for name, value in options.items():
            yield f"{prefix}{name}", str(name)
            yield from texts(value, f"{prefix}{name}.")
    elif isinstance(options, (list, tuple)):
        for index, value in enumerate(options):
            yield from texts(value, f"{prefix}{index}.")
    elif not isinstance(options, (bool, int, float, type(None))):
        yield prefix.removesuffix("."), str(options)
