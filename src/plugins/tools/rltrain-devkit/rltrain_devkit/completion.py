"""Completes words by the tab key, with argcomplete: imported only where a shell asks for it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from rltrain.commands import command_of, commands, make_parser
from rltrain.errors import RltrainError, UsageError
from rltrain.options import RunOptions
from rltrain.plugins import discover
from rltrain.runs import all_runs, shortest
from rltrain.specs import KINDS, SuiteSpec
from rltrain.terminal import one_line

Values = Callable[[argparse.Namespace], Iterable[str]]
"""Returns what a word may be, from the words before it."""


class CompleteCommand:
    """Complete words by the tab key: the shell calls it.

    In ~/.bashrc or ~/.zshrc: eval "$(register-python-argcomplete rltrain)"
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: the shell gives the line by variables."""

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print what the word at the cursor may become."""
        if "_ARGCOMPLETE" not in os.environ:
            raise UsageError(
                'complete: the shell calls it: eval "$(register-python-argcomplete rltrain)"'
            )
        try:
            import argcomplete
        except ImportError:  # The shell found its script in another environment.
            return 1
        line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
        start = int(os.environ["_ARGCOMPLETE"])  # As many words start the program.
        before = argcomplete.lexers.split_line(line, point)[3][start:]
        if before and not before[0].startswith(("-", "+")) and "=" not in before[0]:
            os.environ["_ARGCOMPLETE"] = str(start + 1)
        try:
            parser = _parser(before)
        except RltrainError:  # There is no such command, or it cannot be used.
            return 1
        argcomplete.autocomplete(parser, always_complete_options=False)
        return 0


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command, which knows what its arguments may be."""
    if list(words) == ["help"]:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("command", choices=[*commands(), "help"])
        return parser
    name, loaded, _ = command_of(list(words[:1]))
    parser = make_parser(loaded, name)
    if loaded.spec.name == "train" and list(words) in ([], [name]):
        first = parser.add_argument("task", nargs="?")
        if not words:
            first.completer = _first  # type: ignore[attr-defined]
    for action in parser._actions:
        values = _values(action)
        if values is not None and not hasattr(action, "completer"):
            action.completer = _completer(values)  # type: ignore[attr-defined]
    return parser


def _completer(values: Values) -> Callable[..., Iterable[str]]:
    """Leave out what would control the terminal: names of files and plugins are others'."""
    return lambda parsed_args, **_: [word for word in values(parsed_args) if word == one_line(word)]


def _first(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    """Complete the first word: a command, or else a task; suites are asked for tasks alone."""
    found = [name for name in (*commands(), "help") if name.startswith(prefix)]
    return found or _completer(_tasks)(parsed_args)


def _values(action: argparse.Action) -> Values | None:
    """Return what knows the values of an argument; None for files, and what argparse knows."""
    metavar, name = str(action.metavar), action.dest
    if metavar.startswith("{"):
        return lambda _: metavar.strip("{}").split(",")
    kind = {"writers": "writer", "observers": "observer", "grad_sync": "gradient_sync"}
    if (spec := KINDS.get(kind.get(name, name))) is not None:
        return lambda _: discover().names(spec)
    known = {"task": _tasks, "words": _tasks, "run": _runs, "runs": _runs, "resume": _runs}
    has_files = metavar in ("DIR", "FILE", "WHICH") or action.choices
    return known.get(name, None if has_files else lambda _: ())


def _tasks(_: argparse.Namespace) -> Iterator[str]:
    """Yield all tasks by name; suites know them without starting a simulator."""
    for suite in discover().all(SuiteSpec):
        with contextlib.suppress(Exception):  # Another author's suite may raise anything.
            yield from suite.tasks()


def _runs(given: argparse.Namespace) -> list[str]:
    runs = all_runs(getattr(given, "log_root", RunOptions.log_root))
    return ["latest", *map(shortest, runs)]
