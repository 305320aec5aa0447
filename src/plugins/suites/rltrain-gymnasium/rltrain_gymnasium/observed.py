"""Converts one environment's observations to groups: vectors of numbers, and images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, OneOf, Space, Text, Tuple, flatten, flatten_space
from gymnasium.wrappers import FlattenObservation

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo

__all__ = ["described", "grouped", "is_image"]


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

    An image is left as it is. In a Dict with images, each image is a group with its own name, and
    the rest is flattened to the group `policy`; a single image with nothing else is the group
    `policy`. All other observations are flattened.

    Args:
        task: the task's name, for messages.
        env: the environment.

    Raises:
        UsageError: the observations are not numbers of a fixed size, or contain images in an
            unsupported layout.
    """
    space = env.observation_space
    if isinstance(space, Dict) and any(is_image(part) for part in space.spaces.values()):
        return ImagesApart(task, env)
    _check_numbers(task, space)
    _check_images(task, space)
    is_vector = isinstance(space, Box) and len(space.shape) == 1
    return env if is_vector or is_image(space) else FlattenObservation(env)


class ImagesApart(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Keeps the images of a Dict, and flattens everything else to the group `policy`."""

    def __init__(self, task: str, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap an environment whose observations are a Dict with images.

        Raises:
            UsageError: it is not clear what the group `policy` is, or the rest cannot be flattened.
        """
        super().__init__(env)
        parts: Mapping[str, Space[Any]] = env.observation_space.spaces  # type: ignore[attr-defined]
        self._images = {name: part for name, part in parts.items() if is_image(part)}
        self._rest = Dict({name: part for name, part in parts.items() if name not in self._images})
        self._check_one_policy(task)
        _check_numbers(task, self._rest)
        for part in (*self._images.values(), *self._rest.values()):
            _check_images(task, part)
        groups = dict(self._images)
        if self._rest.spaces:
            groups["policy"] = flatten_space(self._rest)
        self._only = next(iter(groups)) if len(groups) == 1 else None
        self.observation_space = Dict(groups) if self._only is None else groups[self._only]

    def observation(self, observation: Any) -> Any:
        """Return the groups of an observation, or its only image."""
        if self._only is not None:
            return observation[self._only]
        groups = {name: observation[name] for name in self._images}
        if self._rest.spaces:
            rest = {name: observation[name] for name in self._rest.spaces}
            groups["policy"] = flatten(self._rest, rest)
        return groups

    def _check_one_policy(self, task: str) -> None:
        """Check that exactly one group is `policy`; a single image with nothing else becomes it."""
        has_rest, is_named = bool(self._rest.spaces), "policy" in self._images
        if (has_rest and is_named) or (not has_rest and not is_named and len(self._images) > 1):
            raise UsageError(
                f"The task {task!r} observes {', '.join(self.env.observation_space)}: if all "  # type: ignore[arg-type]
                "observations are images, one must be named `policy`; if some are not, they form "
                "`policy`, and no image may have this name. Rename them in a "
                "gymnasium.ObservationWrapper."
            )


def _check_numbers(task: str, space: Space[Any]) -> None:
    """Refuse what has no vector of fixed size, or one that means nothing, as codes of letters."""
    for keys, part in _leaves(space):
        if isinstance(part, (OneOf, Text)) or not _flattens(part):
            kind = type(part)
            under = f" under {', '.join(map(repr, keys))}" if keys else ""
            hint = (
                ": minigrid.wrappers has ImgObsWrapper or, with its words, FlatObsWrapper"
                if kind.__module__.startswith("minigrid.")
                else ""
            )
            raise UsageError(
                f"The task {task!r} observes a {kind.__name__}{under}; only numbers of a fixed "
                "size can be learned from. Leave it out, or turn it into a Box, in a "
                f"gymnasium.ObservationWrapper{hint}."
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
    """Return whether Gymnasium can flatten a space: it raises for a class that it does not know."""
    try:
        return space.is_np_flattenable
    except NotImplementedError:
        return False


def _check_images(task: str, space: Space[Any]) -> None:
    """Refuse images with channels first, of integers other than uint8, or in a nested space."""
    if isinstance(space, (Dict, Tuple)):
        inside = space.spaces.values() if isinstance(space, Dict) else space.spaces
        if any(_has_images(part) for part in inside):
            raise UsageError(
                f"The task {task!r} has images nested in {space}; an image must be the whole "
                "observation or a member of one Dict. Convert it in a gymnasium.ObservationWrapper."
            )
    elif _has_images(space) and (not is_image(space) or _channels_first(space)):
        raise UsageError(
            f"The task {task!r} observes {space.dtype} of shape {space.shape}; images must be "
            "uint8 or float, with axes in the order height, width, channels. Convert them in a "
            "gymnasium.ObservationWrapper."
        )


def _has_images(space: Space[Any]) -> bool:
    if isinstance(space, (Dict, Tuple)):
        inside = space.spaces.values() if isinstance(space, Dict) else space.spaces
        return any(_has_images(part) for part in inside)
    return isinstance(space, Box) and len(space.shape) >= 3


def _channels_first(image: Space[Any]) -> bool:
    """Guess from its shape whether an image's first axis is channels, or a stack of frames."""
    shape = image.shape or ()
    # A board of 4 by 4 fields with 16 kinds of pieces has them last.
    return shape[0] <= 4 < shape[-1] and shape[0] != shape[1]
