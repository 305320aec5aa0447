"""Finds images with channels first, which some Isaac Lab tasks return; suites return them last."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["channels_come_first", "channels_last"]


def channels_come_first(shape: Sequence[int]) -> bool:
    """Return whether the shape of one environment's observation is an image with channels first.

    Assumes at most four channels, and more than four pixels in a row.
    """
    return len(shape) == 3 and shape[0] <= 4 < shape[-1]


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of an image with its channels moved last if they come first."""
    return (*shape[1:], shape[0]) if channels_come_first(shape) else tuple(shape)
