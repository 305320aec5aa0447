"""Reads what is in a checkpoint without running code that it names."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

__all__ = ["counters_in", "names_in"]


def counters_in(path: Path) -> dict[str, Any]:
    """Return the attributes that SB3 saved as JSON; those that it pickled stay text."""
    with zipfile.ZipFile(path) as archive:
        attributes: dict[str, Any] = json.loads(archive.read("data"))
    return attributes


def names_in(path: str, trusted: bool) -> list[str] | str:
    """Return the names of the files in SB3's zip archive, or why it cannot be read.

    Args:
        path: the archive.
        trusted: whether it may run code. Nothing here does.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return "it is not a zip archive, but Stable-Baselines3's checkpoints are."
