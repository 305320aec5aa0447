"""What play, evaluate and export have in common: RUN, the checkpoint, and options of the run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any

from rltrain.commands import add_flags, read_options
from rltrain.errors import UsageError
from rltrain.options import RunOptions, Scope, scoped
from rltrain.plugins import discover
from rltrain.specs import SuiteSpec

RUN = "a run folder, a checkpoint, or latest: the newest run below --log-root"

_EPILOG = """\
options of the task:
  env.KEY=VALUE        set an option of the task; the others are the run's own

A checkpoint that a library's own script wrote needs --library, --task and --agent-config. The last
is found beside it in params/agent.yaml, as Isaac Lab and mjlab write it; else the suite's options
for the task are taken, if there are any."""


def add_run(parser: argparse.ArgumentParser, **settings: Any) -> None:
    """Add RUN, and which of its checkpoints is meant.

    Args:
        parser: the command's parser.
        **settings: how argparse takes RUN, such as `nargs="+"`.
    """
    parser.add_argument("run", metavar="RUN", help=RUN, **{"nargs": "?", **settings})
    parser.add_argument(
        "--checkpoint",
        metavar="WHICH",
        help="latest, best, the iteration after which it was saved, or a file (latest)",
    )


def find_run(arguments: argparse.Namespace) -> None:
    """Set RUN if there is none, as in Isaac Lab's commands.

    It is the file or folder of --checkpoint, or else the newest run of --task.

    Raises:
        UsageError: neither was given.
    """
    take_task(arguments)
    if arguments.run:
        return
    file = arguments.checkpoint
    if file is not None and os.path.exists(file):
        arguments.run, arguments.checkpoint = file, None
    elif hasattr(arguments, "task"):
        arguments.run = "latest"
    else:
        raise UsageError(f"Name a RUN: {RUN}.")


def take_task(arguments: argparse.Namespace) -> None:
    """Take RUN for a task if it is one, as mjlab's users type it, and no file or folder."""
    word = arguments.run
    if not word or os.path.lexists(word) or hasattr(arguments, "task"):
        return
    suites = discover().all(SuiteSpec)
    if any(x.knows(word) if x.knows else x.describe(word, {}) for x in suites):
        arguments.task, arguments.run = word, None


def add_policy_flags(
    parser: argparse.ArgumentParser, more: Iterable[str] = (), without: Iterable[str] = ()
) -> None:
    """Add the options of a run that a policy has; those not given are the run's own.

    Args:
        parser: the command's parser.
        more: further fields of `RunOptions`.
        without: fields to leave out.
    """
    of_policy = scoped(RunOptions, Scope.KEPT | Scope.TAKEN)
    add_flags(parser, {*of_policy, *more} - set(without))
    parser.epilog = f"{_EPILOG}\n\n{parser.epilog}"


def options_of(
    arguments: argparse.Namespace, words: list[str], more: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the fields of `RunOptions` that were given; see `add_policy_flags`."""
    names = {*scoped(RunOptions, Scope.KEPT | Scope.TAKEN), *more}
    given = {name: value for name, value in vars(arguments).items() if name in names}
    return read_options(given, words)
