"""Options and spaces of libraries and tasks: read, set, refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.options import get_dotted
from rltrain.types import ArrayInfo


def get_positive_int(agent: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """Return the agent option at a dotted key.

    Raises:
        UsageError: it is not an integer, or is less than 1.
    """
    value = get_dotted(agent, key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.{key}={value!r}: must be a whole number, at least 1.")
    return value


def set_child(node: Any, name: str, value: Any) -> None:
    """Set a child of a node in a suite's tree of `env.` options.

    Args:
        node: a dict, whose keys need not be strings, a list, or an object with attributes.
        name: an existing key, the index of an item, or an attribute, as the user writes it.
        value: the new value.
    """
    if isinstance(node, dict):
        node[next(key for key in node if str(key) == name)] = value
    elif isinstance(node, list):
        node[int(name)] = value
    else:
        setattr(node, name, value)


def unknown_env_option(task: str, key: str, known: Iterable[str]) -> UsageError:
    """Return the error for an `env.` option that a task does not have.

    Args:
        task: the task's name.
        key: the dotted key.
        known: dotted keys that the task has, at least those on the same level.
    """
    names = list(known)
    return UsageError(
        f"env.{key}: the task {task} has no such option.{suggest(key, names)} "
        f"Its options: {', '.join(names) or 'none'}."
    )


def is_image(space: Any) -> bool:
    """Return whether a Gymnasium space is an image as suites give them; see `ArrayInfo`."""
    from gymnasium.spaces import Box

    return isinstance(space, Box) and ArrayInfo(space.shape, str(space.dtype)).is_image
