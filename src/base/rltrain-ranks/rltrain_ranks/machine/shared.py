"""The folder that the ranks of a run on one node share: no other user can look or meet there."""

from __future__ import annotations

from pathlib import Path

from rltrain_ranks.world import World

__all__ = ["shared_folder", "use_folder"]

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
