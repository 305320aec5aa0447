"""The commands that the core brings, and which plugins bring the others."""

from __future__ import annotations

from typing import Any

from rltrain.specs import CommandSpec

__all__ = ["COMMANDS", "OF_PLUGINS", "TRAIN"]


def _command(name: str, summary: str, **fields: Any) -> CommandSpec:
    factory = f"rltrain.cli.{name}:{name.capitalize()}Command"
    return CommandSpec(name=name, factory=factory, summary=summary, **fields)


TRAIN = _command(
    "train", "train a task with an RL library, on one process or many", takes="options"
)
"""The command that is meant where none is named."""

COMMANDS = (
    TRAIN,
    _command(
        "tasks", "list tasks: their spaces, what can learn them, and which have tuned options"
    ),
    _command("plugins", "list the installed plugins, whether they can be used, and if not, why"),
    _command("new", "create a plugin's distribution, which installs and passes its tests as it is"),
    _command(
        "play",
        "watch a policy: in a window, in the browser, as a video, or by its returns",
        takes="options",
    ),
    _command(
        "evaluate",
        "measure what a run has learned: statistics of whole episodes of its policy",
        takes="options",
    ),
    _command(
        "export",
        "write a policy as a file that runs without rltrain, as on a robot",
        takes="options",
    ),
)

OF_PLUGINS = {
    "doctor": "rltrain-doctor",
    "report": "rltrain-report",
    "scale": "rltrain-report",
}
"""The distributions of our other commands, in the order in which commands are listed."""
