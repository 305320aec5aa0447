"""What rich draws, without what would control the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltrain.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment


@dataclass
class Plain:
    """What rich draws, with plain text in it."""

    drawn: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Draw it, piece by piece."""
        for piece in console.render(self.drawn, options):
            yield piece if piece.control else piece._replace(text=plain(piece.text))
