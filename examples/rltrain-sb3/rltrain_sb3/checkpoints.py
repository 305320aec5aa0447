"""Reads the contents of a checkpoint, before any rank starts."""

from __future__ import annotations

import zipfile

__all__ = ["names_in"]


def names_in(path: str) -> list[str] | str:
    """Return the names of the files in SB3's zip archive, or why it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return "it is not a zip archive, but Stable-Baselines3's checkpoints are."
