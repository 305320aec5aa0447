"""Parsing a command's words: flags take dashes or underscores, errors are one line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rltrain.cli import train
from rltrain.errors import UsageError, suggest

__all__ = ["parse"]

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
    parser = _Parser(
        prog="rltrain" if name is None else f"rltrain {name}",
        description=command.__doc__,
        epilog=command.EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    arguments, unknown = parser.parse_known_args([_dashed(word) for word in words])
    if unknown:
        parser.refuse(unknown, getattr(command, "REFUSED", {}), is_train=command is train)
    return arguments, passed_through


class _Parser(argparse.ArgumentParser):
    """Reports errors as the rest of rltrain does: in one line, with the closest match."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"{message}. See {self.prog} --help.")

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
        hint = suggest(flag, known) if flag.startswith("-") else _OVERRIDES if is_train else ""
        raise UsageError(f"Unknown argument {flag!r}.{hint} See {self.prog} --help.")


def _dashed(word: str) -> str:
    """Turn `--num_envs=4` into `--num-envs=4`; each flag takes dashes or underscores."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value
