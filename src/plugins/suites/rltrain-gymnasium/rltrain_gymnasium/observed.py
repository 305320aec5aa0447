"""Converts one environment's observations to groups: vectors of numbers, and images."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, OneOf, Space, Text, Tuple, flatten, flatten_space
from gymnasium.wrappers import FlattenObservation

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo

_NOT_SEEN = ("critic", "teacher", "rnd_state")
"""The groups that a policy does not see, by the names of rsl_rl's models."""

_OF_CRITIC = re.compile(r"(critic|privileged)(_\w+)?")
"""Names of what a critic alone sees, such as MuJoCo Playground's `privileged_state`."""


def is_image(space: Space[Any]) -> bool:
    """Return whether a space holds uint8 or float images: height, width and channels."""
    return isinstance(space, Box) and len(space.shape) == 3 and array_dtype(space) is not None


def array_dtype(space: Space[Any]) -> str | None:
    """Return the dtype to which images of a space are converted, or None if unsupported."""
    if space.dtype == np.uint8:
        return "uint8"
    return "float32" if np.issubdtype(space.dtype, np.floating) else None


def described(space: Space[Any]) -> dict[str, ArrayInfo]:
    """Describe the observation groups of an environment that `grouped` returned."""
    parts = space.spaces if isinstance(space, Dict) else {"policy": space}
    return {
        name: ArrayInfo(part.shape or (), (is_image(part) and array_dtype(part)) or "float32")
        for name, part in parts.items()
    }


def grouped(task: str, env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Wrap an environment so that its observations are a vector, an image, or groups of these.

    An image is left as it is. In a Dict, each image is a group with its own name, and so is what
    only a critic, a teacher or RND may see; the rest is flattened to the group `policy`. A single
    image with nothing else to act by is the group `policy`. All other observations are flattened.
    """
    space = env.observation_space
    if not isinstance(space, Space):
        raise UsageError(
            f"The task {task!r}: its observation_space is a {type(space).__name__}, not a space of "
            "Gymnasium. A task of several agents, such as PettingZoo's, must be one of one agent."
        )
    _check_numbers(task, space)
    if isinstance(space, Dict):
        return Groups(task, env)
    _check_images(task, space)
    is_vector = isinstance(space, Box) and len(space.shape) == 1
    return env if is_vector or is_image(space) else FlattenObservation(env)


class Groups(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Keeps the images of a Dict, and flattens everything else, group by group."""

    def __init__(self, task: str, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap an environment whose observations are a Dict."""
        super().__init__(env)
        parts: Mapping[str, Space[Any]] = env.observation_space.spaces  # type: ignore[attr-defined]
        groups = _groups(parts)
        mixed = (len(x) > 1 and any(map(is_image, x.values())) for x in groups.values())
        if any(mixed) or "policy" not in groups:
            raise UsageError(
                f"The task {task!r} observes {', '.join(parts)}: if all observations are images, "
                "one must be named `policy`; if some are not, they form `policy`, and no image may "
                "have this name. Rename them in a gymnasium.ObservationWrapper."
            )
        for part in parts.values():
            _check_images(task, part)
        self._reads: dict[str, Callable[[Any], Any]] = {}
        spaces: dict[str, Space[Any]] = {}
        for group, members in groups.items():
            name, part = next(iter(members.items()))
            spaces[group] = part if is_image(part) else flatten_space(members)
            self._reads[group] = itemgetter(name) if is_image(part) else partial(flatten, members)
        self.observation_space = Dict(spaces) if len(spaces) > 1 else spaces["policy"]

    def observation(self, observation: Any) -> Any:
        """Return the groups of an observation, or the only one."""
        groups = {group: read(observation) for group, read in self._reads.items()}
        return groups if len(groups) > 1 else groups["policy"]


def _groups(parts: Mapping[str, Space[Any]]) -> dict[str, Dict]:
    """Return the members of a Dict by the group that they belong to."""
    groups: dict[str, dict[str, Space[Any]]] = {}
    for name, part in parts.items():
        own = name if name in _NOT_SEEN or is_image(part) else "policy"
        group = "critic" if _OF_CRITIC.fullmatch(name) else own
        groups.setdefault(group, {})[name] = part
    seen = [group for group in groups if group not in _NOT_SEEN]
    if not seen:  # Then it is no critic's: nothing else is there to act by.
        return {"policy": Dict(dict(parts))}
    if len(seen) == 1:
        groups["policy"] = groups.pop(seen[0])
    return {group: Dict(members) for group, members in groups.items()}


def _check_numbers(task: str, space: Space[Any]) -> None:
    """Refuse what has no vector of fixed size, or one that means nothing, as codes of letters."""
    for keys, part in _leaves(space):
        if isinstance(part, (OneOf, Text)) or not _flattens(part):
            under = f" under {', '.join(map(repr, keys))}" if keys else ""
            hint = ": minigrid.wrappers has ImgObsWrapper or, with its words, FlatObsWrapper"
            raise UsageError(
                f"The task {task!r} observes a {type(part).__name__}{under}; only numbers of a "
                "fixed size can be learned from. Leave it out, or turn it into a Box, in a "
                "gymnasium.ObservationWrapper"
                f"{hint if type(part).__module__.startswith('minigrid.') else ''}."
            )


def _leaves(space: Space[Any], *keys: Any) -> Iterator[tuple[tuple[Any, ...], Space[Any]]]:
    """Yield the spaces in a space that contain no others, with the keys to each."""
    if isinstance(space, (Dict, Tuple)):
        inside = space.spaces
        for key, part in inside.items() if isinstance(inside, Mapping) else enumerate(inside):
            yield from _leaves(part, *keys, key)
    else:
        yield keys, space


def _flattens(space: Space[Any]) -> bool:
    try:
        return space.is_np_flattenable
    except NotImplementedError:  # Of a class that Gymnasium does not know.
        return False


def _check_images(task: str, space: Space[Any]) -> None:
    """Refuse images with channels first, of integers other than uint8, or in a nested space."""
    if isinstance(space, (Dict, Tuple)):
        if _has_images(space):
            raise UsageError(
                f"The task {task!r} has images nested in {space}; an image must be the whole "
                "observation or a member of one Dict. Convert it in a gymnasium.ObservationWrapper."
            )
    elif _has_images(space) and (not is_image(space) or _channels_first(space)):
        raise UsageError(
            f"The task {task!r} observes {space.dtype} of shape {space.shape}; images must be "
            "uint8 or float, with axes in the order height, width, channels. Convert them in "
            "gymnasium.wrappers.TransformObservation: lambda image: np.moveaxis(image, 0, -1), say."
        )


def _has_images(space: Space[Any]) -> bool:
    return any(isinstance(part, Box) and len(part.shape) >= 3 for _, part in _leaves(space))


def _channels_first(image: Space[Any]) -> bool:
    """Guess from its shape whether an image's first axis is channels, or a stack of frames."""
    shape = image.shape or ()
    # A board of 4 by 4 fields with 16 kinds of pieces has them last.
    return shape[0] <= 4 < shape[-1] and shape[0] != shape[1]
