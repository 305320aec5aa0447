"""What play, evaluate and export have in common: RUN, the checkpoint, and options of the run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from typing import Any

from rltrain.commands import add_flags, read_options
from rltrain.errors import UsageError

__all__ = ["RUN", "add_policy_flags", "add_run", "find_run", "options_of"]

RUN = "a run folder, a checkpoint, or latest: the newest run below --log-root"

_OPTIONS = (
    *("library", "algorithm", "task", "suite", "framework", "agent_config"),
    *("num_envs", "seed", "device", "gpu_ids", "headless", "enable_cameras"),
    *("trust_checkpoint", "trust_run", "log_root", "no_plugins"),
)
"""Options of a run that a policy has, too. Those not given are the run's own."""

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

    It is the file of --checkpoint, or else the newest run of --task.

    Raises:
        UsageError: neither was given.
    """
    if arguments.run:
        return
    file = arguments.checkpoint
    if file is not None and os.path.isfile(file):
        arguments.run, arguments.checkpoint = file, None
    elif hasattr(arguments, "task"):
        arguments.run = "latest"
    else:
        raise UsageError(f"Name a RUN: {RUN}.")


def add_policy_flags(
    parser: argparse.ArgumentParser, more: Iterable[str] = (), without: Iterable[str] = ()
) -> None:
    """Add the options of a run that a policy has.

    Args:
        parser: the command's parser.
        more: further fields of `RunOptions`.
        without: fields to leave out.
    """
    add_flags(parser, {*_OPTIONS, *more} - set(without))
    parser.epilog = f"{_EPILOG}\n\n{parser.epilog}"


def options_of(
    arguments: argparse.Namespace, words: list[str], own: Iterable[str]
) -> dict[str, Any]:
    """Return the fields of `RunOptions` that were given.

    Args:
        arguments: the parsed flags.
        words: the overrides.
        own: names of the command's own flags.

    Raises:
        UsageError: an override is wrong.
    """
    left_out = {"run", "checkpoint", *own}
    given: Mapping[str, Any] = {
        name: value for name, value in vars(arguments).items() if name not in left_out
    }
    return read_options(given, words)
