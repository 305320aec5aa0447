"""What the core itself provides. Imports are light: listing plugins imports this module."""

from __future__ import annotations

from rltrain.builtin.clusters import CLUSTERS
from rltrain.hookspecs import hookimpl
from rltrain.specs import Spec, WriterSpec


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare what needs nothing else installed, or one small package."""
    return [
        WriterSpec(
            name="console",
            factory="rltrain.builtin.console:ConsoleWriter",
            summary="a live view on a terminal, a line an iteration elsewhere",
        ),
        *CLUSTERS,
    ]
