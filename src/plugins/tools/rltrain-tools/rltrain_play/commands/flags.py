"""What play, evaluate and export have in common: RUN, the checkpoint, and options of the run."""

from __future__ import annotations

import argparse
import dataclasses
import os
from dataclasses import dataclass
from typing import Any, TypeVar

from rltrain.commands import add_flags, read_options
from rltrain.errors import UsageError
from rltrain.options import Group, RunOptions, Scope, scoped
from rltrain.plugins import discover
from rltrain.specs import SuiteSpec

RUN = "a run folder, a checkpoint, or latest: the newest run below --log-root"

_EPILOG = """\
options of the task:
  env.KEY=VALUE        set an option of the task; the others are the run's own

A checkpoint that a library's own script wrote needs --library, --task and --agent-config. The last
is found next to it in params/agent.yaml, as Isaac Lab and mjlab write it; else the suite's options
for the task are taken, if there are any."""

_OF_POLICY = scoped(RunOptions, Scope.KEPT | Scope.TAKEN)

OWN = Group("options")


def which_checkpoint() -> Any:
    """Declare the option that says which of a run's checkpoints is meant."""
    return OWN.option(
        None,
        Scope.COMMAND,
        "latest, best, the iteration after which it was saved, or a file",
        metavar="WHICH",
        default_text="latest",
    )


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A run, and one of its checkpoints."""

    run: str | None = OWN.option(None, Scope.COMMAND, RUN, kind="word", metavar="RUN")
    checkpoint: str | None = which_checkpoint()


ChosenT = TypeVar("ChosenT", bound=Chosen)


def find_run(own: ChosenT, given: dict[str, Any]) -> ChosenT:
    """Return a command's options with a RUN, if there is none, as in Isaac Lab's commands.

    It is the file or folder of --checkpoint, or else the newest run of --task.
    """
    own = take_task(own, given)
    if own.run:
        return own
    if own.checkpoint is not None and os.path.exists(own.checkpoint):
        return dataclasses.replace(own, run=own.checkpoint, checkpoint=None)
    if "task" not in given:
        raise UsageError(f"Name a RUN: {RUN}.")
    return dataclasses.replace(own, run="latest")


def take_task(own: ChosenT, given: dict[str, Any]) -> ChosenT:
    """Take RUN for a task if it is one, as mjlab's users type it, and no file or folder."""
    word = own.run
    if not word or os.path.lexists(word) or "task" in given:
        return own
    suites = discover().all(SuiteSpec)
    if not any(x.probably_has(word) if x.probably_has else x.describe(word, {}) for x in suites):
        return own
    given["task"] = word
    return dataclasses.replace(own, run=None)


def add_policy_flags(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add the options of a run that a policy has, and more; those not given are the run's own."""
    add_flags(parser, {*_OF_POLICY, *more})
    parser.epilog = f"{_EPILOG}\n\n{parser.epilog}"


def options_of(arguments: argparse.Namespace, words: list[str], *more: str) -> dict[str, Any]:
    """Return the options of a run that were given; see `add_policy_flags`."""
    names = {*_OF_POLICY, *more}
    return read_options({name: x for name, x in vars(arguments).items() if name in names}, words)
