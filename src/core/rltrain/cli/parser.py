"""Parsing a command's words: flags take dashes or underscores, errors are one line."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from typing import Any

from rltrain.cli import train
from rltrain.cli.help import add_help
from rltrain.errors import UsageError, suggest

__all__ = ["Parser", "make_parser", "parse"]

_VALUES = ("true", "false")
"""Of a switch, as mjlab's users and those of sweeps type it."""

_SWITCH = "must be True, which may be left out, or False."

_OVERRIDES = " Write the library's options as agent.key=value, the task's as env.key=value."


def parse(command: Any, name: str | None, words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return a command's arguments, and the words that it reads itself.

    Args:
        command: a module of this package, or an object with the same functions.
        name: as it was typed; None for the default command.
        words: those after the name.

    Raises:
        UsageError: the words are wrong.
    """
    words, passed_through = command.split(words)
    parser = make_parser(command, name)
    words = [_dashed(word) for word in words]
    arguments, unknown = parser.parse_known_args(parser.typed(words))
    if unknown:
        parser.check_switches(words, unknown)
        parser.refuse(unknown, getattr(command, "REFUSED", {}), is_train=command is train)
    return arguments, passed_through


def make_parser(command: Any, name: str | None) -> Parser:
    """Return a command's parser.

    Args:
        command: see `parse`.
        name: see `parse`.
    """
    parser = Parser(
        prog="rltrain" if name is None else f"rltrain {name}",
        description=command.__doc__,
        epilog=command.EPILOG,
        allow_abbrev=False,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_help(parser)
    command.add_arguments(parser)
    return parser


class Parser(argparse.ArgumentParser):
    """Reports errors as the rest of rltrain does: in one line, with the closest match."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise `UsageError`."""
        raise UsageError(f"{message}. See {self.prog} --help.")

    def typed(self, words: list[str]) -> list[str]:
        """Return the words with switches as they are typed here: other tools give them a value.

        Raises:
            UsageError: the value is neither true nor false.
        """
        switches = self._switches()
        found: list[str] = []
        for word in words:
            name, equals, value = word.partition("=")
            if name in switches and equals:
                if value.lower() not in _VALUES:
                    raise UsageError(f"{word}: {_SWITCH}")
                found += _switched(name, value, switches)
            elif found and found[-1] in switches and word.lower() in _VALUES:
                found += _switched(found.pop(), word, switches)
            else:
                found.append(word)
        return found

    def check_switches(self, words: list[str], unknown: list[str]) -> None:
        """Check that no unknown word was meant as a switch's value.

        Raises:
            UsageError: one stands behind a switch.
        """
        for before, word in itertools.pairwise(words):
            if before in self._switches() and word in unknown and not word.startswith("-"):
                raise UsageError(f"{before} {word}: {_SWITCH}")

    def _switches(self) -> set[str]:
        return {o for a in self._actions if a.nargs == 0 for o in a.option_strings}

    def refuse(self, unknown: list[str], refused: Mapping[str, str], *, is_train: bool) -> None:
        """Report the first unknown flag, or else the first unknown word.

        Args:
            unknown: the words that the command does not know.
            refused: flags of other programs, and what to say of each.
            is_train: whether the command trains.

        Raises:
            UsageError: always.
        """
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        known = [option for action in self._actions for option in action.option_strings]
        flag = word.partition("=")[0]
        if flag in refused:
            raise UsageError(refused[flag])
        hint = ""
        if flag.startswith("--"):
            hint = suggest(flag[2:], [each[2:] for each in known if each.startswith("--")])
            hint = hint.replace("'", "'--", 1)
        hint = hint or (_OVERRIDES if is_train else "")
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
