"""What the core itself provides. Imports are light: listing plugins imports this module."""

from __future__ import annotations

from rltrain.builtin.clusters import CLUSTERS
from rltrain.hookspecs import hookimpl
from rltrain.specs import Spec, WriterSpec


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare what needs nothing else installed."""
    return [
        WriterSpec(
            name="console",
            factory="rltrain.builtin.console:ConsoleWriter",
            summary="a line an iteration, unless another plugin has a view of the run",
            gives_way=True,
        ),
        *CLUSTERS,
    ]
