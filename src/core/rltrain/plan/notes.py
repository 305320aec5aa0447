"""What the plan tells the user on the way, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rltrain.specs import LibrarySpec
from rltrain.types import World
from rltrain_files.terminal import note
from rltrain_files.yaml import left_out

__all__ = ["of_file", "tell"]


def tell(texts: Iterable[str], world: World | None = None) -> None:
    """Print texts on stderr, unless this process is a rank other than the first."""
    if world is None or world.is_root:
        for text in texts:
            note(text)


def of_file(path: str, library: LibrarySpec, agent: dict[str, Any]) -> Iterator[str]:
    """Yield what a user's file lacks, and what it says to other programs, and how here."""
    missing = left_out(path)
    if missing:
        keys = ", ".join(missing)
        yield f"{path}: {keys}: left out, because other files of its Hydra configuration have them."
    for text in library.remarks(agent) if library.remarks is not None else ():
        yield f"{path}: {text}"
