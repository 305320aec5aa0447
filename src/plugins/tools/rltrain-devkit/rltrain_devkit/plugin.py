"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec


@hookimpl
def rltrain_provides() -> list[CommandSpec]:
    """Declare the commands."""
    return [
        CommandSpec(
            name="new",
            factory="rltrain_devkit.new:NewCommand",
            summary="create a plugin's distribution, which installs and passes its tests as it is",
        ),
        CommandSpec(
            name="check",
            factory="rltrain_devkit.check:CheckCommand",
            summary="say what is wrong with an installed plugin",
        ),
        CommandSpec(
            name="complete",
            factory="rltrain_devkit.completion:CompleteCommand",
            summary="complete words by the tab key, for the shell",
        ),
    ]
