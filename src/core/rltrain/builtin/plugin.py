"""What the core itself provides. Imports are light: listing plugins imports this module."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer that needs nothing else installed."""
    return [
        WriterSpec(
            name="console",
            factory="rltrain.builtin.console:ConsoleWriter",
            summary="a live view on a terminal, a line an iteration elsewhere",
        )
    ]
