"""What `rltrain --help` and the help of a command print."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

from rltrain.config.declare import Scope, scoped
from rltrain.options.run import RunOptions

_OVERVIEW = """\
Train any task with any RL library, on any number of processes and machines.

usage: rltrain [train] [TASK] [FLAG ...] [agent.KEY=VALUE ...] [env.KEY=VALUE ...]
       rltrain COMMAND ...

commands:
{commands}

examples:
  rltrain --library rl_games --distributed
  rltrain Pendulum-v1 --library skrl --num-envs 64 --max-iterations 100
  rltrain evaluate latest

more:
  rltrain COMMAND --help     its usual flags; --help-all shows every flag
  eval "$(register-python-argcomplete rltrain)"    the tab key completes, with
                             rltrain[completion] installed"""

_RARE = {field.name for field in dataclasses.fields(RunOptions)} - set(
    scoped(RunOptions, Scope.USUAL)
)


def overview(commands: Mapping[str, str]) -> str:
    """Return one screen: what rltrain does, and its commands."""
    rows = (
        f"  {name:<9} {about[:1].upper()}{about[1:].rstrip('.')}"
        for name, about in commands.items()
    )
    return _OVERVIEW.format(commands="\n".join(rows))


def add_help(parser: argparse.ArgumentParser) -> None:
    """Add `--help`, which leaves out the flags that few need, and `--help-all`."""
    parser.add_argument("-h", "--help", action=_Help, help="show this help")
    parser.add_argument("--help-all", action=_Help, help=argparse.SUPPRESS)


class _Help(argparse.Action):
    """Prints the help of a command, and ends."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        rare = [x for x in parser._actions if x.dest in _RARE and x.help != argparse.SUPPRESS]
        if option_string != "--help-all" and rare:
            for action in rare:
                action.help = argparse.SUPPRESS
            more = f"More flags: {parser.prog} --help-all."
            parser.epilog = "\n\n".join(filter(None, [parser.epilog, more]))
        parser.print_help()
        parser.exit()
