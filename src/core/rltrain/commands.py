"""For commands that plugins add: reading a command line of a run, which starts elsewhere or later.

`rltrain.types.Command` is what such a command implements.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.builtin.commands import TRAIN
from rltrain.cli import torchrun, train
from rltrain.cli.main import command_of
from rltrain.cli.parser import parse
from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan

__all__ = ["read_run", "resolve_run"]


def read_run(words: Sequence[str]) -> dict[str, Any]:
    """Read the words after `rltrain` of a command that trains.

    Returns:
        The options that were given, here or in a --config file, as they were typed. They are fields
        of `rltrain.options.RunOptions`, whose `from_mapping` checks types and ranges.

    Raises:
        UsageError: a flag or the command is unknown, or another command than `train` was given.
    """
    name, loaded, rest = command_of(list(words))
    if loaded.spec is not TRAIN:
        raise UsageError(f"rltrain {name}: does not train. Give the flags of a run.")
    arguments, overrides = parse(loaded, name, rest)
    given, _ = torchrun.separate(vars(arguments))
    options = train.read_options(given, overrides)
    options.pop("dry_run", None)
    return options


def resolve_run(options: Mapping[str, Any], *, gpus: int) -> RunConfig:
    """Return a run as another machine would resolve it, with every check that can be made here.

    The plugins of this machine are used, and files of options are read here. What that machine has
    by itself is not checked: the checkpoint, the folder of runs, and what has started the process.

    Args:
        options: as `read_run` returns them.
        gpus: how many GPUs each node of the other machine shows.

    Raises:
        UsageError: an option is wrong, or a combination cannot work.
    """
    return make_plan({**options, "cluster": "none"}, os.environ, gpus=gpus).config
