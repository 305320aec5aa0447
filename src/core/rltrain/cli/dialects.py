"""What plugins know of other programs' command lines, put together."""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.builtin.plugin import TRAIN
from rltrain.config import RunConfig
from rltrain.dialects import Dialect
from rltrain.errors import PluginError, UsageError
from rltrain.files.secrets import hide_words
from rltrain.plugins.registry import discover
from rltrain.specs import CommandSpec
from rltrain.terminal import note
from rltrain.types import World


def _known() -> list[Dialect]:
    return discover().dialects()


def trains(word: str) -> Sequence[str] | None:
    """Return what `train` is given besides where a word is another program's command for it."""
    return next((each.trains[word] for each in _known() if word in each.trains), None)


def instead_of(word: str) -> str | None:
    """Return what to type instead of another program's command; None if it is none."""
    for each in _known():
        if word in each.commands:
            return f"{word}: is a command of {each.program}. Type {each.commands[word]}."
    return None


def refused(spec: CommandSpec) -> dict[str, str]:
    """Return the flags that a command refuses, each with the reason and what to type instead."""
    if spec.takes != "options":
        return {}
    known = _known()
    found = {flag: text for each in known for flag, text in each.refuses.items()}
    if spec is not TRAIN:
        for each in known:
            found |= each.refuses_of_policies
    return found


def translate(words: list[str]) -> list[str]:
    """Return a command's words in rltrain's syntax."""
    known = _known()
    flags = {flag: said for each in known for flag, said in each.flags.items()}
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if (said := flags.get(name.replace("_", "-"))) is None:
            found.append(word)
            continue
        value = value if equals else next(rest, "")
        if not value or value.startswith("--"):
            raise UsageError(f"{name}: needs a value, as in {name} VALUE.")
        found += said(value)
    for each in known:
        found = each.translate(found) if each.translate is not None else found
    return found


def hand_over(words: list[str]) -> int | None:
    """Let another program start a run that is its own; with --dry-run, print its command line."""
    asked = (each.hands_over(words) for each in _known() if each.hands_over is not None)
    command = next(filter(None, asked), None)
    if command is None:
        return None
    shown = shlex.join(hide_words(command))
    if "--dry-run" in words or "--dry_run" in words:
        print(shown)
        return 0
    note(f"started by another program: {shown}")
    with subprocess.Popen(command) as child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # A terminal sends it to the child, too.
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        status = child.wait()
    return status if status >= 0 else 128 - status


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of other programs that `train` accepts; --help does not list them."""
    for each in _known():
        try:
            if each.add_flags is not None:
                each.add_flags(parser)
        except argparse.ArgumentError as error:
            raise PluginError(f"The flags of {each.program} that a plugin adds: {error}") from error


def separate(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the run, and what flags of other programs say besides."""
    options = {name: value for name, value in given.items() if " " not in name}
    return options, {name: value for name, value in given.items() if name not in options}


def from_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the options that variables of other programs set; an empty one sets nothing."""
    return {
        option: environ[name]
        for each in _known()
        for name, option in each.variables.items()
        if environ.get(name)
    }


def remark(settings: Mapping[str, Any], config: RunConfig, world: World | None) -> None:
    """Print what becomes of flags and variables that change nothing."""
    from rltrain.plan.resolve import tell  # Not for --help.

    for each in _known():
        if each.remarks is not None:
            tell(each.remarks(settings, config, world), world)
