"""For commands that plugins add: a run's command line, read and planned.

`rltrain.types.Command` is what such a command implements.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rltrain.cli.flags import add_flags, read_flags
from rltrain.cli.main import command_of, commands, main, read_run
from rltrain.cli.parser import make_parser
from rltrain.cli.train import read_options
from rltrain.config import RunConfig
from rltrain.plan.draft import Plan
from rltrain.plan.resolve import make_plan
from rltrain.terminal import json_alone, print_json

__all__ = [
    "Plan",
    "add_flags",
    "command_of",
    "commands",
    "json_alone",
    "main",
    "make_parser",
    "make_plan",
    "print_json",
    "read_flags",
    "read_options",
    "read_run",
    "resolve_run",
]


def resolve_run(options: Mapping[str, Any], *, gpus: int) -> RunConfig:
    """Return a run as another machine with so many GPUs would resolve it.

    `options` are as `read_run` returns them. Plugins and files of options are this machine's. What
    the other one has by itself is not checked: the checkpoint, the folder of runs, and what has
    started the process. What is wrong raises `UsageError`.
    """
    return make_plan({**options, "cluster": "none"}, os.environ, gpus=gpus).config
