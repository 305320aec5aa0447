"""Images whose channels come first, as some tasks of Isaac Lab give them; suites put them last."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["channels_come_first", "channels_last"]


def channels_come_first(shape: Sequence[int]) -> bool:
    """Whether the shape of one environment's observations is that of such an image.

    An image has at most four channels, and more pixels in a row.
    """
    return len(shape) == 3 and shape[0] <= 4 < shape[-1]


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of an image with the channels last, wherever they come."""
    return (*shape[1:], shape[0]) if channels_come_first(shape) else tuple(shape)
