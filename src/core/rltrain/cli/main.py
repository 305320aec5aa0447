"""The command line: `rltrain [train] ...`, `rltrain play`, `evaluate`, `tasks` and others.

Plugins may add commands.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rltrain import __version__
from rltrain.builtin.plugin import COMMANDS, TRAIN
from rltrain.cli import dialects, train
from rltrain.cli.parser import Loaded, load, parse
from rltrain.errors import RltrainError, UsageError, suggest
from rltrain.files.secrets import hide_in_text
from rltrain.plugins import ours
from rltrain.plugins.registry import discover
from rltrain.ranks.logs import lasting_output
from rltrain.ranks.signals import status_of
from rltrain.specs import CommandSpec, SuiteSpec
from rltrain.terminal import json_alone, plain_output

_OVERVIEW = """\
Train any task with any RL library, on any number of processes and machines.

usage: rltrain [train] [TASK] [FLAG ...] [agent.KEY=VALUE ...] [env.KEY=VALUE ...]
       rltrain COMMAND ...

commands:
{commands}

examples:
  rltrain --library rl_games --distributed
  rltrain Pendulum-v1 --library skrl --num-envs 64 --max-iterations 100

more:
  rltrain COMMAND --help     its usual flags; --help-all shows every flag
  eval "$(register-python-argcomplete rltrain)"    tab completes (rltrain[completion])"""

_CORE = {spec.name: spec for spec in COMMANDS}
_ONLY_PRINT = {"-h", "--help", "--help-all", "--version", "--dry-run", "help", "version"}
_LIKE_A_COMMAND, _ENDLESS = re.compile("[a-z_-]+"), re.compile(r"\S{400,}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    0: done. 1: a run failed. 2: the command line, a file or a combination is wrong. 75: a signal
    has ended a run, which can resume. 130: Ctrl-C. 143: SIGTERM, while nothing was trained.
    """
    if "_ARGCOMPLETE" in os.environ:  # A shell asks what could be typed: nothing may run.
        found = commands().get("complete")
        return load(found).command.run(argparse.Namespace(), []) if found else 1
    words = list(sys.argv[1:] if argv is None else argv)
    with lasting_output() as missing, plain_output():
        try:
            with json_alone("--json" in (word.partition("=")[0] for word in words)):
                status = _run(words)
            sys.stdout.flush()
            if missing() and status == 0:
                trains = command_of(words)[1].spec is TRAIN and not _ONLY_PRINT & set(words)
                if not trains:  # A run outlives its output.
                    return _fail(f"rltrain: stdout cannot be written: {missing()}.", os.EX_IOERR)
            return status
        except KeyboardInterrupt:
            return _fail("rltrain: interrupted.", status_of(signal.SIGINT))
        except Exception as error:
            if not isinstance(error, RltrainError):
                return _fail(traceback.format_exc().rstrip(), 1)
            message = _ENDLESS.sub(lambda found: f"{found[0][:200]}...", str(error))
            if isinstance(error, UsageError):  # No name in it can forge a line of its own.
                message = message.replace("\n", "\n  ")
            return _fail(f"rltrain: {message}", error.exit_code)


def _run(words: list[str]) -> int:
    first = words[0] if words else None
    if first in ("--version", "version"):
        print(f"rltrain {__version__}")
        return 0
    if first in ("-h", "--help") or words == ["help"]:
        print(overview({name: spec.summary for name, spec in commands().items()}))
        return 0
    if first == "help":
        return _run([words[1], "--help"])
    name, loaded, rest = command_of(words)
    if loaded.spec is TRAIN and (status := dialects.hand_over(rest)) is not None:
        return status
    arguments, rest = parse(loaded, name, rest, starts=True)
    try:
        return loaded.command.run(arguments, rest)
    except SystemExit as error:  # Of a task, a simulator or a library; argparse's is above.
        if error.code:
            raise
        text = "".join(traceback.format_exception(error)).rstrip()
        return _fail(f"{text}\nrltrain: sys.exit(0) was called before the work was done.", 1)


def overview(commands: Mapping[str, str]) -> str:
    """Return one screen: what rltrain does, and its commands."""
    rows = (
        f"  {name:<9} {about[:1].upper()}{about[1:].rstrip('.')}"
        for name, about in commands.items()
    )
    return _OVERVIEW.format(commands="\n".join(rows))


def commands() -> dict[str, CommandSpec]:
    """Return all commands by name: the core's first, then those of our plugins."""
    added = {spec.name: spec for spec in discover().all(CommandSpec)}
    of_ours = {name: added[name] for name in ours.COMMANDS if name in added}
    return _CORE | of_ours | {name: spec for name, spec in added.items() if name not in _CORE}


def command_of(words: list[str]) -> tuple[str | None, Loaded, list[str]]:
    """Return the command's name, the command, and the words after the name.

    A task may come first, as with mjlab: then the name is None, as for no words at all. A word that
    is neither a command nor a task raises `UsageError`.
    """
    first = _bare(words)
    if first in _CORE:
        task = _bare(words[1:]) if first == "train" else None
        is_task = task and _is_task(task)
        return first, load(_CORE[first]), ["--task", *words[1:]] if is_task else words[1:]
    if first is None:
        return None, load(TRAIN), words
    if (more := dialects.trains(first)) is not None:
        name, loaded, rest = command_of(["train", *words[1:]])
        return name, loaded, [*rest, *more]
    # Plugins are asked only if the word may be a command.
    offered = commands() if _LIKE_A_COMMAND.fullmatch(first) else _CORE
    if first in offered:
        return first, load(discover().get(CommandSpec, first)), words[1:]
    if _is_task(first):
        return None, load(TRAIN), ["--task", *words]
    raise _unknown(first, offered)


def read_run(words: Sequence[str]) -> dict[str, Any]:
    """Return the options in the words after `rltrain` of a command that trains, as typed.

    They are fields of `rltrain.options.RunOptions`, whose `from_mapping` checks types and ranges;
    those in a --config file are among them. Another command than `train` is a `UsageError`.
    """
    name, loaded, rest = command_of(list(words))
    if loaded.spec is not TRAIN:
        raise UsageError(f"rltrain {name}: does not train. Give the flags of a run.")
    arguments, overrides = parse(loaded, name, rest)
    options = train.read_options(vars(arguments), overrides)
    options.pop("dry_run", None)
    return options


def _unknown(word: str, offered: Iterable[str]) -> UsageError:
    """Return the error for a word that is no command and no task: what to type, or to install."""
    reason = (
        discover().unusable_reason(CommandSpec, word)
        or ours.how_to_install("command", word)
        or dialects.instead_of(word)
    )
    if reason is not None:
        return UsageError(reason)
    return UsageError(
        f"Unknown command {word!r}.{suggest(word, offered)} Commands: {', '.join(offered)}. "
        "It is not a task either; `rltrain tasks` lists those, and `rltrain plugins` says which "
        "plugins are not ready."
    )


def _bare(words: list[str]) -> str | None:
    """Return the first word, if it is neither a flag nor an override."""
    first = words[0] if words else ""
    return first if first and not first.startswith(("-", "+")) and "=" not in first else None


def _is_task(word: str) -> bool:
    """Return whether a word is meant as a task. Suites are asked only if it may be a command."""
    if not _LIKE_A_COMMAND.fullmatch(word):
        return True  # An unknown task has its own error message, with the closest name.
    from rltrain.plan.choices import having

    registry = discover()
    try:
        return bool(having(word, {}, registry.all(SuiteSpec), registry))
    except UsageError:  # A suite knows the task, and says why it cannot be made.
        return True


def _fail(message: str, code: int) -> int:
    sys.stdout.flush()
    print(hide_in_text(message), file=sys.stderr, flush=True)
    return code
