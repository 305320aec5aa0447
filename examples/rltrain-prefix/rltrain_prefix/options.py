"""The launcher's options. Light: this module is imported when a run is planned."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, field

from rltrain.options import naming

__all__ = ["PrefixOptions"]


@dataclass(frozen=True)
class PrefixOptions:
    """Options of the launcher; `rltrain plugins prefix` lists them."""

    command: str = field(default="nice", metadata=naming("command"))
    """What starts a rank's Python, such as "numactl --cpunodebind={local_rank}"; `{rank}` and
    `{local_rank}` are the rank's numbers."""

    def __post_init__(self) -> None:
        """Check the option before a rank starts."""
        words = self.words(0)
        if not words or shutil.which(words[0]) is None:
            raise ValueError(f"command={self.command}: there is no such program. Name another.")

    def words(self, rank: int) -> list[str]:
        """Return the command for a rank, in words."""
        numbers = {"{rank}": str(rank), "{local_rank}": str(rank)}
        words = shlex.split(self.command)
        for name, number in numbers.items():
            words = [word.replace(name, number) for word in words]
        return words
