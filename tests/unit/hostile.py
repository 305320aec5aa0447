"""Text that would control a terminal, and a run that is full of it."""

from __future__ import annotations

import re

from rltrain.records import RunEnded, RunStarted, Scalars, Warned
from rltrain.types import World

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x1b\\here\x9b31m\x7f\r\b\t\x00"
    "\u202eabc\u2066\u2028\u200f[bold][link=http://x]y[/link]"
)
"""Clears the screen, sets the title, links, colors, goes back, reverses, and is markup of rich."""


def controls(text: str) -> list[str]:
    """Return what a terminal would obey."""
    return re.findall(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028]", text
    )


def hostile_records() -> list[object]:
    started = RunStarted(
        f"/runs/{HOSTILE}", HOSTILE, HOSTILE, HOSTILE, World(device=HOSTILE), 8, 1, resumed=HOSTILE
    )
    return [
        started,
        Scalars(1, {HOSTILE: 1.0}, 3, 8, 1.0, (8.0,), 1.0),
        Warned(HOSTILE, 1),
        RunEnded(1, 8, 1.0, 1.0, error=f"Error: {HOSTILE}"),
    ]
