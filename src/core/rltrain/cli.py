"""The command line: `rltrain [train] ...`, `rltrain tasks`, `plugins`, `doctor` and `new`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence

from rltrain import __version__
from rltrain.commands import doctor, new, plugins, tasks, train
from rltrain.errors import RltrainError, UsageError, suggest

__all__ = ["main"]

_COMMANDS = {"train": train, "tasks": tasks, "plugins": plugins, "doctor": doctor, "new": new}
_OVERRIDES = " Options of the library are written agent.key=value, of the task env.key=value."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    0: done. 1: a run failed. 2: the command line, a file or a combination is wrong. 130: Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except RltrainError as error:
        return _fail(f"rltrain: {error}", error.exit_code)
    except KeyboardInterrupt:
        return _fail("rltrain: interrupted.", 128 + signal.SIGINT)
    except BrokenPipeError:
        # The reader of our output is gone, as under `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _run(words: list[str]) -> int:
    name = words[0] if words and not words[0].startswith("-") and "=" not in words[0] else None
    if name is not None and name not in _COMMANDS:
        raise UsageError(
            f"Unknown command {name!r}.{suggest(name, _COMMANDS)} Commands: {', '.join(_COMMANDS)}."
        )
    rest = words[1:] if name else words
    if name is None and rest[:1] == ["--version"]:
        print(f"rltrain {__version__}")
        return 0
    command = _COMMANDS[name or "train"]
    rest, passed_through = command.split(rest)
    parser = _Parser(
        prog="rltrain" if name is None else f"rltrain {name}",
        description=command.__doc__,
        epilog=command.EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    arguments, unknown = parser.parse_known_args([_dashed(word) for word in rest])
    if unknown:
        parser.refuse(unknown, _OVERRIDES if command is train else "")
    run: Callable[[argparse.Namespace, list[str]], int] = command.run
    return run(arguments, passed_through)


class _Parser(argparse.ArgumentParser):
    """Reports errors as everything else does: one line, with the closest match."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"{message}. See {self.prog} --help.")

    def refuse(self, unknown: list[str], of_words: str) -> None:
        """Name the first word that is no flag of this command; `of_words` is said of others."""
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        known = [option for action in self._actions for option in action.option_strings]
        flag = word.partition("=")[0]
        hint = suggest(flag, known) if flag.startswith("-") else of_words
        raise UsageError(f"Unknown argument {flag!r}.{hint} See {self.prog} --help.")


def _dashed(word: str) -> str:
    """Turn `--num_envs=4` into `--num-envs=4`; each flag takes dashes or underscores."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _fail(message: str, code: int) -> int:
    sys.stdout.flush()
    print(message, file=sys.stderr, flush=True)
    return code
