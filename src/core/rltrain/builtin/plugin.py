"""What the core itself provides. Imports are light: listing plugins imports this module."""

from __future__ import annotations

from typing import Any

from rltrain.builtin.clusters import CLUSTERS
from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, LauncherSpec, Spec, WriterSpec


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare what needs nothing else installed."""
    return [
        WriterSpec(
            name="console",
            factory="rltrain.builtin.console:ConsoleWriter",
            summary="a line an iteration, unless another plugin has a view of the run",
            overridable=True,
        ),
        LauncherSpec(
            name="processes",
            factory="rltrain.builtin.processes:ProcessesLauncher",
            unsupported=("max_restarts",),
            summary="the standard library's processes, which import the framework once",
        ),
        *CLUSTERS,
    ]


def _command(name: str, summary: str, **fields: Any) -> CommandSpec:
    factory = f"rltrain.cli.{name}:{name.capitalize()}Command"
    return CommandSpec(name=name, factory=factory, summary=summary, **fields)


TRAIN = _command(
    "train", "train a task with an RL library, on one process or many", takes="options"
)
"""The command that is meant where none is named."""

COMMANDS = (
    TRAIN,
    _command("plugins", "list the installed plugins, whether they can be used, and if not, why"),
)
