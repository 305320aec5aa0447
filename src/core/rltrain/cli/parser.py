"""Parsing a command's words: flags take dashes or underscores, errors are one line."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from typing import Any, NamedTuple

from rltrain.builtin.plugin import TRAIN
from rltrain.cli import dialects, train
from rltrain.config.declare import Scope, scoped
from rltrain.errors import UsageError, suggest
from rltrain.options.run import RunOptions
from rltrain.plugins.options import make_plugin
from rltrain.specs import CommandSpec
from rltrain.types import Command

_VALUES = ("true", "false")  # Of a switch, as mjlab's users and those of sweeps type it.


class Loaded(NamedTuple):
    """A command, ready to read its words."""

    spec: CommandSpec
    command: Command


def load(spec: CommandSpec) -> Loaded:
    """Load the class that a spec names."""
    return Loaded(spec, make_plugin(spec, {}))


def parse(
    loaded: Loaded, name: str | None, words: list[str], starts: bool = False
) -> tuple[argparse.Namespace, list[str]]:
    """Return a command's arguments, and its own words; other nodes hear why it never `starts`."""
    rest: list[str] = []
    if loaded.spec.takes == "options":
        words, rest = train.separate(words, loaded.spec)
    elif "--" in words:
        end = words.index("--")
        words, rest = words[:end], words[end + 1 :]
    parser = make_parser(loaded, name)
    words = [_dashed(word) for word in words]
    arguments, unknown = parser.parse_known_args(parser.typed(words))
    if unknown:
        from rltrain.nodes.telling import telling_others

        given = vars(arguments)
        with telling_others(lambda: given if starts and not given.get("dry_run") else {}):
            parser.refuse(unknown, loaded.spec)
    return arguments, rest


def make_parser(loaded: Loaded, name: str | None) -> Parser:
    """Return a command's parser. Its help has the command's docstring around the flags."""
    description, _, epilog = (inspect.getdoc(loaded.command) or "").partition("\n\n")
    parser = Parser(
        prog="rltrain" if name is None else f"rltrain {name}",
        description=description,
        epilog=epilog,
        allow_abbrev=False,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_help(parser)
    loaded.command.add_arguments(parser)
    return parser


class Parser(argparse.ArgumentParser):
    """Reports errors as the rest of rltrain does: in one line, with the closest match."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise `UsageError`."""
        raise UsageError(f"{message}. See {self.prog} --help.")

    def typed(self, words: list[str]) -> list[str]:
        """Return the words as they are typed here: others give switches a value, or flags no --."""
        known = {option for action in self._actions for option in action.option_strings}
        switches = {o for a in self._actions if a.nargs == 0 for o in a.option_strings}
        found: list[str] = []
        for word in words:
            name, equals, value = word.partition("=")
            is_value = bool(found) and found[-1] in known - switches
            if equals and not is_value and (flag := f"--{name.replace('_', '-')}") in known:
                word, name = f"{flag}={value}", flag
            if name in switches and equals:
                if value.lower() not in _VALUES:
                    raise UsageError(f"{word}: must be True, which may be left out, or False.")
                found += _switched(name, value, switches)
            elif found and found[-1] in switches and word.lower() in _VALUES:
                found += _switched(found.pop(), word, switches)
            else:
                found.append(word)
        return found

    def refuse(self, unknown: list[str], spec: CommandSpec) -> None:
        """Refuse the first unknown flag, or else the first unknown word."""
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        known = [option for action in self._actions for option in action.option_strings]
        flag = word.partition("=")[0]
        refused = dialects.refused(spec)
        if flag in refused:
            raise UsageError(refused[flag])
        hint = ""
        if flag.startswith("--"):
            hint = suggest(flag[2:], [each[2:] for each in known if each.startswith("--")])
            hint = hint.replace("'", "'--", 1)
        if spec is TRAIN and not hint:
            hint = " Write the library's options as agent.key=value, the task's as env.key=value."
        raise UsageError(f"Unknown argument {flag!r}.{hint} See {self.prog} --help.")


def _dashed(word: str) -> str:
    """Turn `--num_envs=4` into `--num-envs=4`; each flag takes dashes or underscores."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _switched(name: str, value: str, switches: set[str]) -> list[str]:
    """Return the words for a switch with a value; without a --no- form, off is to leave it out."""
    off = f"--no-{name.lstrip('-')}"
    return [name] if value.lower() == "true" else [off] if off in switches else []


_RARE = {field.name for field in dataclasses.fields(RunOptions)} - set(
    scoped(RunOptions, Scope.USUAL)
)


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
