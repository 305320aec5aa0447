"""The command line: `rltrain [train] ...`, `rltrain tasks`, `plugins`, `doctor` and `new`."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence

from rltrain import __version__
from rltrain.cli import doctor, foreign, new, plugins, tasks, train
from rltrain.errors import RltrainError, UsageError, suggest

__all__ = ["main"]

_COMMANDS = {"train": train, "tasks": tasks, "plugins": plugins, "doctor": doctor, "new": new}
_OVERRIDES = " Write the library's options as agent.key=value, the task's as env.key=value."


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
        # The reader of our output has exited, as with `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _run(words: list[str]) -> int:
    name, rest = _command(words)
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
        parser.refuse(unknown, is_train=command is train)
    run: Callable[[argparse.Namespace, list[str]], int] = command.run
    return run(arguments, passed_through)


def _command(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the command's name, and the words after it. A task may come first, as with mjlab.

    Raises:
        UsageError: the first word is neither a command nor a task.
    """
    first = _bare(words)
    if first in foreign.TRAIN_DISTRIBUTED:
        name, rest = _command(["train", *words[1:]])
        return name, [*rest, "--distributed"]
    if first in _COMMANDS:
        task = _bare(words[1:]) if first == "train" else None
        return first, ["--task", *words[1:]] if task and _is_task(task) else words[1:]
    if first is None or _is_task(first):
        return None, ["--task", *words] if first else words
    raise UsageError(
        f"Unknown command {first!r}.{suggest(first, _COMMANDS)} Commands: {', '.join(_COMMANDS)}. "
        "It is not a task either; `rltrain tasks` lists those."
    )


def _bare(words: list[str]) -> str | None:
    """Return the first word, if it is neither a flag nor an override."""
    first = words[0] if words else ""
    return first if first and not first.startswith(("-", "+")) and "=" not in first else None


def _is_task(word: str) -> bool:
    """Return whether a word is meant as a task. Suites are asked only if it may be a command."""
    if not re.fullmatch("[a-z_-]+", word):
        return True  # An unknown task has its own error message, with the closest name.
    from rltrain.plugins.registry import discover
    from rltrain.specs import SuiteSpec

    for suite in discover().all(SuiteSpec):
        try:
            if suite.describe(word) is not None:
                return True
        except UsageError:  # The suite knows the task, and says why it cannot be made.
            return True
    return False


class _Parser(argparse.ArgumentParser):
    """Reports errors as the rest of rltrain does: in one line, with the closest match."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"{message}. See {self.prog} --help.")

    def refuse(self, unknown: list[str], *, is_train: bool) -> None:
        """Report the first unknown flag, or else the first unknown word.

        Raises:
            UsageError: always.
        """
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        known = [option for action in self._actions for option in action.option_strings]
        flag = word.partition("=")[0]
        if is_train and flag in foreign.REFUSED:
            raise UsageError(foreign.REFUSED[flag])
        hint = suggest(flag, known) if flag.startswith("-") else _OVERRIDES if is_train else ""
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
