"""Completes words by the tab key, with argcomplete: imported only where a shell asks for it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rltrain.commands import add_flags, command_of, commands, make_parser
from rltrain.errors import RltrainError, UsageError
from rltrain.options import RunOptions
from rltrain.plugins import discover
from rltrain.runs import all_runs, shortest
from rltrain.specs import KINDS, BackendSpec, LibrarySpec, Spec, SuiteSpec
from rltrain.terminal import one_line

Completer = Callable[..., Iterable[str]]
"""Called with `prefix`, what is typed of the word, and `parsed_args`, the words before it."""

_FILES = ("FILE", "DIR")
"""How flags write a value that is a file or folder."""
_KIND_OF = {"writers": "writer", "observers": "observer", "grad_sync": "gradient_sync"}
"""Options that are not called as the kind of plugin that they name."""


class CompleteCommand:
    """Complete words by the tab key: the shell calls it, once it is told to.

    In ~/.bashrc or ~/.zshrc: eval "$(register-python-argcomplete rltrain)"
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: the shell tells the line by variables."""

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print what the word at the cursor may become."""
        if "_ARGCOMPLETE" not in os.environ:
            raise UsageError(
                'complete: the shell calls it: eval "$(register-python-argcomplete rltrain)"'
            )
        return _complete()


def _complete() -> int:
    try:
        import argcomplete
        from argcomplete.completers import ChoicesCompleter
        from argcomplete.lexers import split_line
    except ImportError:  # The shell found its script in another environment.
        return 1
    before = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    start = int(os.environ["_ARGCOMPLETE"])  # As many words start the program.
    words = before[start:]
    if words and not words[0].startswith(("-", "+")) and "=" not in words[0]:
        os.environ["_ARGCOMPLETE"] = str(start + 1)
    try:
        parser = _parser(words)
    except RltrainError:  # There is no such command, or it cannot be used.
        return 1
    nothing = ChoicesCompleter({})
    argcomplete.autocomplete(parser, always_complete_options=False, default_completer=nothing)
    return 0


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command, which knows what its arguments may be."""
    names = [*commands(), "help"]
    if list(words) == ["help"]:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("command", choices=names)
        return parser
    name, loaded, _ = command_of(list(words[:1]))
    parser = make_parser(loaded, name)
    if loaded.spec.takes == "run":
        add_flags(parser)
    for action in parser._actions:
        _complete_by(action, _completer(name, action))
    if not words:
        _complete_by(parser.add_argument("task", nargs="?"), _first(names))
    elif loaded.spec.name == "train" and name is not None and len(words) == 1:
        _complete_by(parser.add_argument("task", nargs="?"), _plain(_tasks))
    return parser


def _complete_by(action: argparse.Action, completer: Completer | None) -> None:
    if completer is not None:
        action.completer = completer  # type: ignore[attr-defined]


def _completer(command: str | None, action: argparse.Action) -> Completer | None:
    """Return what knows the values of an argument; None if nobody does, or argparse itself."""
    known: dict[str, Completer] = {
        **{"task": _tasks, "run": _runs, "runs": _runs, "resume": _runs},
        **{"checkpoint": _checkpoints, "algorithm": _algorithms, "framework": _frameworks},
        **{"no_plugins": _plugins, "no_plugin": _plugins},
        **{"tasks words": _tasks, "plugins name": _plugins, "new kind": lambda **_: KINDS},
    }
    kind = _KIND_OF.get(action.dest, action.dest)
    if kind in KINDS:
        return _plain(lambda **_: _names(KINDS[kind]))
    found = known.get(f"{command} {action.dest}") or known.get(action.dest)
    if found is not None:
        return _plain(found)
    metavar = str(action.metavar)
    if metavar.startswith("{"):
        return _plain(lambda **_: metavar.strip("{}").split(","))
    return _files if metavar in _FILES else None


def _plain(completer: Completer) -> Completer:
    """Leave out what would control the terminal: names of files and plugins are others'."""
    return lambda **given: [word for word in completer(**given) if word == one_line(word)]


def _first(names: Sequence[str]) -> Completer:
    """Complete the first word: a command, or else a task; suites are asked for tasks alone."""

    def completer(prefix: str, **given: Any) -> Iterable[str]:
        found = [name for name in names if name.startswith(prefix)]
        return found or _tasks()

    return _plain(completer)


def _names(kind: type[Spec]) -> list[str]:
    return discover().names(kind)


def _plugins(**given: Any) -> list[str]:
    return [record.name for record in discover().records]


def _frameworks(**given: Any) -> list[str]:
    return sorted({spec.framework for spec in discover().all(BackendSpec)})


def _algorithms(parsed_args: argparse.Namespace, **given: Any) -> list[str]:
    chosen = getattr(parsed_args, "library", None)
    libraries = [each for each in discover().all(LibrarySpec) if chosen in (None, each.name)]
    return [name for each in libraries for name in each.algorithms]


def _tasks(**given: Any) -> list[str]:
    """Return all tasks by name; suites tell them without starting a simulator."""
    found: list[str] = []
    for suite in discover().all(SuiteSpec):
        with contextlib.suppress(Exception):  # Somebody else's suite may raise anything.
            found += suite.tasks()
    return found


def _runs(prefix: str, parsed_args: argparse.Namespace, **given: Any) -> list[str]:
    runs = map(shortest, all_runs(getattr(parsed_args, "log_root", RunOptions.log_root)))
    return ["latest", *runs, *(_files(prefix) if prefix else ())]


def _checkpoints(prefix: str, **given: Any) -> list[str]:
    return ["latest", "best", *(_files(prefix) if prefix else ())]


def _files(prefix: str, **given: Any) -> Iterable[str]:
    from argcomplete.completers import FilesCompleter

    found: Iterable[str] = FilesCompleter()(prefix)
    return found
