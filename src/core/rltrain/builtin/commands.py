"""The commands that the core brings."""

from __future__ import annotations

from typing import Any

from rltrain.specs import CommandSpec

__all__ = ["COMMANDS", "TRAIN"]


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
)
