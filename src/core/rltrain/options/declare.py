"""How an option of the run is declared: a field of `RunOptions` with an `Option`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from rltrain.options import checks
from rltrain.options.checks import Check

__all__ = ["Option", "named", "number", "option", "option_of", "switch"]


@dataclass(frozen=True)
class Option:
    """An option's declaration, besides its name, type and default."""

    group: str
    """The group of `--help` in which it appears."""
    help: str
    """One line; the default is added to it."""
    check: Check
    """Returns the converted value, or raises `UsageError`."""
    metavar: str | None = None
    """How `--help` writes the value; None for a flag without one, and for no flag at all."""
    flags: tuple[str, ...] = ()
    """Further flags with the same meaning."""
    default_text: str = ""
    """Describes the default if it depends on something else."""
    kind: str = "value"
    """How the flag is typed: "value", "values" (one or more), "append" (may be repeated),
    "switch", "yes_no" (--x, --no-x), "true_false" (--x, --x True, --x False), or "none"."""


def option(default: Any, group: str, help: str, check: Check = checks.text, **more: Any) -> Any:
    """Declare an option; `more` are further fields of `Option`."""
    more.setdefault("metavar", None if more.get("kind") else "N")
    metadata = {"option": Option(group, help, check, **more)}
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def switch(group: str, help: str) -> Any:
    """Declare an option that is off unless its flag is given."""
    return option(False, group, help, checks.boolean, kind="switch")


def named(default: Any, group: str, help: str, check: Check = checks.text, **more: Any) -> Any:
    """Declare an option whose value is a name."""
    return option(default, group, help, check, metavar="NAME", **more)


def number(default: int | None, group: str, help: str, minimum: int, **more: Any) -> Any:
    """Declare an option whose value is a whole number of at least `minimum`."""
    return option(default, group, help, checks.integer(minimum), **more)


def option_of(field: dataclasses.Field[Any]) -> Option:
    """Return the declaration of a field of `RunOptions`."""
    declared: Option = field.metadata["option"]
    return declared
