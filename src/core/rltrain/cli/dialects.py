"""What plugins know of other programs' command lines, put together."""

from __future__ import annotations

import functools
import shlex
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence

from rltrain.builtin.plugin import TRAIN
from rltrain.errors import UsageError
from rltrain.files.secrets import hide_words
from rltrain.plugins.registry import discover
from rltrain.specs import CommandSpec, Dialect, Said
from rltrain.terminal import note


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


def translate(words: Sequence[str], spec: CommandSpec = TRAIN) -> list[str]:
    """Return a command's words in rltrain's syntax."""
    known = _known()
    tables = [each.flags for each in known]
    tables += [each.train_flags for each in known if spec is TRAIN]
    tables += [_remarks(each.ignored) for each in known if spec is TRAIN]
    flags = {flag: said for table in tables for flag, said in table.items()}
    found: list[str] = []
    rest = deque(words)
    while rest:
        name, equals, value = (word := rest.popleft()).partition("=")
        said = flags.get(name.replace("_", "-"))
        if said is None:
            found.append(word)
        elif callable(said):
            value = value if equals else rest.popleft() if rest else "--"
            if value.startswith("--"):
                raise UsageError(f"{name}: needs a value, as in {name} VALUE.")
            found += said(value)
        else:  # A switch may have a value, too.
            if not equals and rest and rest[0].lower() in ("true", "false"):
                value = rest.popleft()
            found += [] if value.lower() == "false" else said
    for each in known:
        found = each.translate(found) if each.translate is not None else found
    return found


def _remarks(ignored: Mapping[str, str]) -> dict[str, Said]:
    """Return for each flag that changes nothing a function that says so of its value."""

    def remark(flag: str, text: str, value: str) -> list[str]:
        note(f"{flag} {value}: {text}")
        return []

    rows = [(flags.split(), text) for flags, text in ignored.items()]
    return {x: functools.partial(remark, flags[0], text) for flags, text in rows for x in flags}


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
