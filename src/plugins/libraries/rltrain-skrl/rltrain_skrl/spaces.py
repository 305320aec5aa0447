"""Observation spaces for skrl, for every framework."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rltrain.errors import UsageError
from rltrain_adapters import is_image


class Groups(NamedTuple):
    """The observations of a task, as skrl gets them."""

    spaces: dict[str, spaces.Space[Any]]
    """By name; `policy` is skrl's observations, `critic` its states."""
    grouped: bool
    """Whether the task itself has groups."""
    joined: bool
    """Whether skrl's observations are several groups of the task."""


def observation_groups(space: spaces.Space[Any]) -> Groups:
    """Return the observation groups of a task.

    The group `policy` of a `Dict` space is skrl's observations, the group `critic` its states. If
    there are groups of images too, skrl's observations are a `Dict` of `policy` and these.
    """
    if not isinstance(space, spaces.Dict):
        return Groups({"policy": space}, False, False)
    if "policy" not in space.spaces:
        raise UsageError(
            f"The task's observation groups are {', '.join(space.spaces)}; skrl needs one that "
            "is named `policy` (and takes `critic`, if there is one, as the states)."
        )
    groups = dict(space.spaces)
    images = {
        name: part
        for name, part in groups.items()
        if name not in ("policy", "critic") and is_image(part)
    }
    if images:
        groups["policy"] = spaces.Dict({"policy": groups["policy"], **images})
    return Groups(groups, True, bool(images))


def holds_bytes(space: spaces.Space[Any] | None) -> bool:
    """Whether observations are bytes, as most images are."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8


def as_floats(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space after conversion to floats; skrl builds models from a sample of it."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: as_floats(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([as_floats(part) for part in space.spaces])
    if not isinstance(space, spaces.Box) or np.issubdtype(space.dtype, np.floating):
        return space
    return spaces.Box(space.low, space.high, dtype=np.float32)
