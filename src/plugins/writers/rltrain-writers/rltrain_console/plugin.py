"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer, which takes the place of the core's."""
    return [
        WriterSpec(
            name="console",
            factory="rltrain_console.live:LiveConsoleWriter",
            summary="a live view on a terminal, a line an iteration elsewhere",
        )
    ]
