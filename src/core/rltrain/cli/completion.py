"""Completes words by the tab key, with argcomplete: imported only where a shell asks for it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rltrain.builtin.commands import TRAIN
from rltrain.cli.flags import add_flags
from rltrain.cli.parser import Loaded, make_parser
from rltrain.errors import RltrainError
from rltrain.options.run import RunOptions
from rltrain.plugins.registry import discover
from rltrain.plugins.usual import frameworks
from rltrain.specs import KINDS, LibrarySpec, Spec, SuiteSpec
from rltrain.storage.finding import CHOICES
from rltrain.storage.metrics_file import METRICS
from rltrain.terminal import one_line

__all__ = ["complete"]

Completer = Callable[..., Iterable[str]]
"""Called with `prefix`, what is typed of the word, and `parsed_args`, the words before it."""
CommandOf = Callable[[list[str]], tuple[str | None, Loaded, list[str]]]

_FILES = ("FILE", "DIR")
"""How flags write a value that is a file or folder."""
_KIND_OF = {"writers": "writer", "observers": "observer", "grad_sync": "gradient_sync"}
"""Options that are not called as the kind of plugin that they name."""


def complete(commands: Sequence[str], command_of: CommandOf) -> int:
    """Print what the word at the cursor may become, for the shell that has set `_ARGCOMPLETE`.

    Args:
        commands: the names of all commands.
        command_of: finds the command that words begin with.

    Returns:
        The exit status. Nothing else may be done, whatever the line says.
    """
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
        parser = _parser(words, commands, command_of)
    except RltrainError:  # There is no such command, or it cannot be used.
        return 1
    nothing = ChoicesCompleter({})
    argcomplete.autocomplete(parser, always_complete_options=False, default_completer=nothing)
    return 0


def _parser(
    words: Sequence[str], commands: Sequence[str], command_of: CommandOf
) -> argparse.ArgumentParser:
    """Return the parser of the command, which knows what its arguments may be."""
    if list(words) == ["help"]:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("command", choices=commands)
        return parser
    name, loaded, _ = command_of(list(words[:1]))
    parser = make_parser(loaded, name)
    if loaded.spec.takes == "run":
        add_flags(parser)
    for action in parser._actions:
        _complete_by(action, _completer(name, action))
    if not words:
        _complete_by(parser.add_argument("task", nargs="?"), _first(commands))
    elif loaded.spec is TRAIN and name is not None and len(words) == 1:
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
        **{"tasks words": _tasks, "plugins name": _plugins},
    }
    kind = _KIND_OF.get(action.dest, action.dest)
    if kind in KINDS:
        return _plain(lambda **_: _names(KINDS[kind]))
    found = known.get(f"{command} {action.dest}") or known.get(action.dest)
    if found is not None:
        return _plain(found)
    return _files if action.metavar in _FILES else None


def _plain(completer: Completer) -> Completer:
    """Leave out what would control the terminal: names of files and plugins are others'."""
    return lambda **given: [word for word in completer(**given) if word == one_line(word)]


def _first(commands: Sequence[str]) -> Completer:
    """Complete the first word: a command, or else a task; suites are asked for tasks alone."""

    def completer(prefix: str, **given: Any) -> Iterable[str]:
        found = [name for name in commands if name.startswith(prefix)]
        return found or _tasks()

    return _plain(completer)


def _names(kind: type[Spec]) -> list[str]:
    return discover().names(kind)


def _plugins(**given: Any) -> list[str]:
    return [record.name for record in discover().records]


def _frameworks(**given: Any) -> list[str]:
    return frameworks(discover())


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
    root = Path(getattr(parsed_args, "log_root", RunOptions.log_root)).expanduser()
    runs = [str(path.parent) for path in root.glob(f"*/*/*/{METRICS}")]
    return ["latest", *runs, *(_files(prefix) if prefix else ())]


def _checkpoints(prefix: str, **given: Any) -> list[str]:
    return [*CHOICES, *(_files(prefix) if prefix else ())]


def _files(prefix: str, **given: Any) -> Iterable[str]:
    from argcomplete.completers import FilesCompleter

    found: Iterable[str] = FilesCompleter()(prefix)
    return found
