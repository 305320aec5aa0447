"""What a plugin knows of another program's command line: what its users type, said in rltrain's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Dialect", "Said", "refusals"]

Said = Sequence[str] | Callable[[str], Sequence[str]]
"""A flag in rltrain's words; or for a flag that takes a value, a function of the value that returns
them, or raises `UsageError`."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What users of another program type: translated, or refused with a reason.

    Nothing is dropped in silence. A plugin's dialect counts although what it adapts is not
    installed.
    """

    program: str
    """What its users call it."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """By command of its own, the command to type instead."""
    trains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By command that trains, what else `rltrain train` is then given, such as "--distributed".
    "--usual-library", "NAME" names the library if the user does not."""
    flags: Mapping[str, Said] = field(default_factory=dict)
    """By flag of any command that takes options."""
    train_flags: Mapping[str, Said] = field(default_factory=dict)
    """By flag of `train` alone."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """By flag of `train` that takes a value and changes nothing, a line on what rltrain does. Other
    spellings follow the flag, after spaces."""
    translate: Callable[[list[str]], list[str]] | None = None
    """For what no table says: given the words of a command that takes options, return them in
    rltrain's syntax. What it does not know it leaves. Raises `UsageError`."""
    hands_over: Callable[[list[str]], list[str] | None] | None = None
    """Given the words of `train`, return the command line of the other program that is to start it
    in rltrain's place; None if rltrain can. Raises `UsageError`."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """By flag that commands with options refuse, a message that names it, the reason and what to
    type instead; see `refusals`."""
    refuses_of_policies: Mapping[str, str] = field(default_factory=dict)
    """Those that commands that use a policy refuse, or refuse for another reason."""


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
