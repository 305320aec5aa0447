"""Images among observations: Isaac Lab's tasks put the channels first or last; suites, last.

Which it is follows from the size of the task's cameras. Channels may be those of several frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Space, Tuple


def with_channels_last(space: Space[Any], cfg: Any) -> Space[Any]:
    """Return observations' space with the channels of its images last.

    Returns:
        A space of the same structure. In it, a space that is changed is another object.
    """
    if isinstance(space, Dict):
        return Dict({name: with_channels_last(part, cfg) for name, part in space.items()})
    if isinstance(space, Tuple):
        return Tuple([with_channels_last(part, cfg) for part in space])
    if isinstance(space, Box) and _channels_come_first(space.shape, cfg):
        low, high = (np.moveaxis(bound, 0, -1) for bound in (space.low, space.high))
        return Box(low, high, dtype=space.dtype.type)
    return space


def with_channels_moved(observations: Any, given: Any, wanted: Any) -> Any:
    """Move the channels of observations.

    Args:
        observations: tensors of the environments, structured like their space.
        given: their space.
        wanted: what `with_channels_last` made of it.
    """
    if given is wanted:
        return observations
    if isinstance(given, Dict):
        return {
            name: with_channels_moved(observations[name], part, wanted[name])
            for name, part in given.items()
        }
    if isinstance(given, Tuple):
        return tuple(map(with_channels_moved, observations, given, wanted))
    return observations.movedim(1, -1)


def observed(cfg: Any) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes of a task's images before it is made, with channels last.

    Returns:
        The shapes by group, or None if there is no image. The sizes of vectors are unknown: some
        tasks set them only when they are made.
    """
    groups = vars(cfg.observations) if hasattr(cfg, "observations") else {}
    shapes = {name: _observed_by(group, cfg) for name, group in groups.items()}
    shapes["policy"] = _observed_directly(cfg) or shapes.get("policy")
    return {name: shape for name, shape in shapes.items() if shape} or None


def _observed_directly(cfg: Any) -> tuple[int, ...] | None:
    """Return the shape of a direct task's image."""
    space = getattr(cfg, "observation_space", None)
    shape = getattr(space, "shape", space)
    if not isinstance(shape, (list, tuple)) or [type(size) for size in shape] != [int] * 3:
        return None
    if _channels_come_first(shape, cfg):
        shape = (*shape[1:], shape[0])
    if isinstance(space, list) and hasattr(cfg, "frame_stack"):
        # The space of one frame, for which the task will put that of a stack of the camera's.
        size = next(_sizes(cfg), shape[:2])
        shape = (*size, max(1, cfg.frame_stack) * shape[2])
    return tuple(shape)


def _observed_by(group: Any, cfg: Any) -> tuple[int, ...] | None:
    """Return the shape of a group of a manager-based task, if it is a camera's image alone."""
    terms = [term for term in getattr(group, "__dict__", {}).values() if hasattr(term, "func")]
    if len(terms) != 1 or not group.concatenate_terms or group.history_length:
        return None
    (term,) = terms
    kind = term.params.get("data_type", getattr(term.func, "default_data_type", None))
    if not hasattr(term.func, "default_data_type"):  # It computes something else of the image.
        return None
    sensor = getattr(term.params.get("sensor_cfg"), "name", "tiled_camera")
    camera = getattr(cfg.scene, sensor)
    return (*_size(camera), _channels(camera, kind) * term.params.get("frame_stack", 1))


def _channels(camera: Any, kind: str) -> int:
    """Return the channels of a camera's data type, as a policy gets them."""
    if "segmentation" in kind:
        return 4 if getattr(camera.renderer_cfg, f"colorize_{kind}", True) else 1
    return 1 if "depth" in kind or "distance" in kind else 3


def _channels_come_first(shape: Sequence[int], cfg: Any) -> bool:
    """Return whether the shape of an observation is an image with channels first.

    The image of a camera has its size; that of another size, more pixels in a row than channels.
    """
    if len(shape) != 3:
        return False
    sizes = set(_sizes(cfg))
    first, last = tuple(shape[1:]) in sizes, tuple(shape[:2]) in sizes
    return shape[0] < shape[2] if first == last else first


def _sizes(cfg: Any) -> Iterator[tuple[int, int]]:
    """Yield height and width of the cameras' images."""
    # Direct tasks of Isaac Lab 2 have their cameras next to the scene.
    for part in (*vars(cfg.scene).values(), *vars(cfg).values()):
        if "data_types" in getattr(part, "__dict__", ()):  # `hasattr` imports what names stand for.
            yield _size(part)


def _size(camera: Any) -> tuple[int, int]:
    image = getattr(camera, "pattern_cfg", camera)  # The rays of a camera that casts them.
    return image.height, image.width
