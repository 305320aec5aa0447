"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec


@hookimpl
def rltrain_provides() -> list[CommandSpec]:
    """Declare the command."""
    return [
        CommandSpec(
            name="sweep",
            factory="rltrain_sweep.command:SweepCommand",
            summary="search for options: each trial is a run, on any number of ranks",
            takes="options",
        )
    ]
