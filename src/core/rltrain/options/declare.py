"""How an option is declared: one of the run, with an `Option`; and what its value names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from rltrain.options import checks
from rltrain.options.checks import Check

__all__ = ["NAMES", "Names", "Option", "named", "naming", "number", "option", "option_of", "switch"]

Names = Literal["text", "command", "path", "code", "host"]
"""What the value of an option names, which decides whether it is taken from a run folder."""

NAMES = "names"
"""The key of a field's metadata that holds it."""


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
    """How the flag is typed: "value", "values" (one or more), "append" (may be repeated), "switch"
    (--x, --no-x, --x True, --x False), or "none"."""
    usual: bool = False
    """Whether many users need it, so that `--help` shows it; `--help-all` shows all."""


def naming(names: Names) -> dict[str, str]:
    """Return the metadata of a field of a plugin's options whose value is text, or has text in it.

    Somebody else may have written the options in a run folder. They are taken from there only if
    they cannot do harm. Numbers and switches cannot. Of text, the plugin must say so:

        entity: str | None = field(default=None, metadata=naming("text"))
        setup: list[str] = field(default_factory=list, metadata=naming("command"))

    What is declared otherwise, or not at all, is taken from the user alone.

    Args:
        names: "text" for a label, or a word of which the plugin knows all; "command" for what is
            run; "path" for a file or folder; "code" for a module, class or expression; "host" for
            an address or URL, to which the run connects.
    """
    return {NAMES: names}


def option(
    default: Any,
    group: str,
    help: str,
    check: Check = checks.text,
    *,
    names: Names | None = None,
    **more: Any,
) -> Any:
    """Declare an option of the run.

    Args:
        default: its value if the user does not set it.
        group: see `Option`.
        help: see `Option`.
        check: see `Option`.
        names: see `naming`; None for numbers and switches.
        **more: further fields of `Option`.
    """
    more.setdefault("metavar", None if more.get("kind") else "N")
    metadata = {"option": Option(group, help, check, **more), NAMES: names}
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def switch(group: str, help: str, default: bool | None = False, **more: Any) -> Any:
    """Declare an option that is off, or not chosen, unless its flag is given."""
    return option(default, group, help, checks.boolean, kind="switch", **more)


def named(default: Any, group: str, help: str, check: Check = checks.text, **more: Any) -> Any:
    """Declare an option whose value is a name."""
    return option(default, group, help, check, metavar="NAME", names="text", **more)


def number(default: int | None, group: str, help: str, minimum: int, **more: Any) -> Any:
    """Declare an option whose value is a whole number of at least `minimum`."""
    return option(default, group, help, checks.integer(minimum), **more)


def option_of(field: dataclasses.Field[Any]) -> Option:
    """Return the declaration of a field of `RunOptions`."""
    declared: Option = field.metadata["option"]
    return declared
