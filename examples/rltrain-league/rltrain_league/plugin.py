"""What this plugin provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import CommandSpec, Spec

__all__ = ["rltrain_provides"]


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the command."""
    return [
        CommandSpec(
            name="league",
            factory="rltrain_league.command:LeagueCommand",
            summary="evaluate the best checkpoint of each run",
        )
    ]
