"""Draws pictures of one environment on the CPU: thick lines with antialiased edges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

HEIGHT, WIDTH = 320, 480
"""Size of a picture, in pixels."""

BLUE, GRAY, RED = (40, 90, 160), (150, 150, 150), (200, 70, 50)


class Line(NamedTuple):
    """A straight line with round ends; points are (right, up) in m."""

    start: tuple[float, float]
    end: tuple[float, float]
    radius: float
    """Half the thickness, in m."""
    color: tuple[int, int, int]


def picture(lines: Iterable[Line], width: float, middle: float) -> npt.NDArray[np.uint8]:
    """Draw lines on white, later ones over earlier ones.

    Args:
        lines: the lines to draw.
        width: the width of the visible area in m, centered at 0.
        middle: the height of its center, in m.

    Returns:
        uint8 of shape (HEIGHT, WIDTH, 3).
    """
    import numpy as np

    pixel = width / WIDTH
    across = (np.arange(WIDTH) + 0.5 - WIDTH / 2) * pixel
    up = ((HEIGHT / 2 - 0.5 - np.arange(HEIGHT)) * pixel + middle)[:, None]
    seen = np.full((HEIGHT, WIDTH, 3), 255.0)
    for line in lines:
        (x, y), (right, top) = line.start, line.end
        length = np.hypot(right - x, top - y)
        # A unit vector along the line; any direction for a dot.
        ahead = ((right - x) / length, (top - y) / length) if length else (1.0, 0.0)
        along = np.clip((across - x) * ahead[0] + (up - y) * ahead[1], 0.0, length)
        apart = np.hypot(across - x - along * ahead[0], up - y - along * ahead[1])
        covered = np.clip(0.5 + (line.radius - apart) / pixel, 0.0, 1.0)[..., None]
        seen += covered * (np.array(line.color) - seen)
    return (seen + 0.5).astype(np.uint8)
