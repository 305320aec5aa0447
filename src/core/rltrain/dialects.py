"""What a plugin knows of another program's command line: what its users type, said in rltrain's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltrain.config import RunConfig
from rltrain.types import World

__all__ = ["Dialect", "refusals"]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What users of another program type: translated, accepted, or refused with a reason.

    Nothing is dropped in silence. A plugin's dialect counts although what it adapts is not
    installed.
    """

    program: str
    """What its users call it."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """By command of its own, the command to type instead."""
    trains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By command that trains, what `rltrain train` is then given besides, such as "--distributed".
    "--usual-library", "NAME" names the library if the user does not."""
    flags: Mapping[str, Callable[[str], Sequence[str]]] = field(default_factory=dict)
    """By flag that takes a value, what that is in rltrain's syntax. May raise `UsageError`."""
    translate: Callable[[list[str]], list[str]] | None = None
    """Given the words of a command that takes options, return them in rltrain's syntax. What it
    does not know it leaves. Raises `UsageError`."""
    hands_over: Callable[[list[str]], list[str] | None] | None = None
    """Given the words of `train`, return the command line of the other program that is to start it
    in rltrain's place; None if rltrain can. Raises `UsageError`."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """By flag that commands with options refuse, a message that names it, the reason and what to
    type instead; see `refusals`."""
    refuses_of_policies: Mapping[str, str] = field(default_factory=dict)
    """Those that commands that use a policy refuse, or refuse for another reason."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """By environment variable, the option of a run that it sets. Flags come before it."""
    add_flags: Callable[[argparse.ArgumentParser], None] | None = None
    """Add flags that `train` accepts, without help. Their `dest` is an option of a run, or, for
    what changes nothing, has a space in it."""
    remarks: Callable[[Mapping[str, Any], RunConfig, World | None], Iterable[str]] | None = None
    """Given the values of flags that change nothing, by `dest`, the resolved run, and the place of
    this process if others started it, return lines for the user. Raises `UsageError` for flags
    that contradict the run."""


def refusals(rows: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return the message for each refused flag.

    Args:
        rows: flags without their dashes, why they are refused, and what to type instead.

    Example:
        >>> refusals([("sigma", "it is an option of the network.", "Set agent.sigma=VALUE.")])
        {'--sigma': '--sigma: it is an option of the network. Set agent.sigma=VALUE.'}
    """
    return {
        flag: f"{flag}: {reason} {instead}"
        for names, reason, instead in rows
        for flag in (f"--{name}" if len(name) > 1 else f"-{name}" for name in names.split())
    }
