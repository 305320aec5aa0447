"""The folder that the ranks of a run on one node share: no other user can look or meet there."""

from __future__ import annotations

import os
from pathlib import Path

from rltrain.types import World

__all__ = ["shared_folder", "short_path", "use_folder"]

_folder: Path | None = None


def use_folder(folder: Path | None) -> Path | None:
    """Set the folder that a launcher made for the ranks of its node; return the one before."""
    global _folder
    before, _folder = _folder, folder
    return before


def shared_folder(world: World) -> Path | None:
    """Return a folder of all ranks, for the sockets and stores by which they meet.

    A port on the loopback interface is open to every user of the machine; this folder is not.

    Args:
        world: this rank's place.

    Returns:
        The folder, until the ranks end. None if they are on several nodes, or something else than
        rltrain has started them: then they meet at MASTER_ADDR and MASTER_PORT.
    """
    return _folder if world.num_nodes == 1 else None


def short_path(folder: Path, name: str) -> str:
    """Return a path for a unix socket in a folder, however long the folder's own path is.

    Linux takes 107 bytes at most. This process keeps the folder open, and the path is good only
    inside of it.
    """
    return f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}/{name}"
