"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec


@hookimpl
def rltrain_provides() -> list[CommandSpec]:
    """Declare the command."""
    return [
        CommandSpec(
            name="doctor",
            factory="rltrain_doctor.command:DoctorCommand",
            summary="check this machine with test ranks, to see whether a run is likely to work",
        )
    ]
