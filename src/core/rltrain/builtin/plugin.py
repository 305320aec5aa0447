"""What the core itself provides; light, because it is imported whenever plugins are listed."""

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
