"""The flags of a run, made from the fields of `RunOptions`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from typing import Any

from rltrain.config.checks import flag
from rltrain.config.declare import Option, option_of
from rltrain.options.run import RunOptions


def add_flags(parser: argparse.ArgumentParser, names: Iterable[str] | None = None) -> None:
    """Add the flags in their groups. A flag that is not given is absent from the result."""
    groups: dict[str, Any] = {}
    wanted = None if names is None else set(names)
    for field in dataclasses.fields(RunOptions):
        option = option_of(field)
        if option.kind == "none" or (wanted is not None and field.name not in wanted):
            continue
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        groups[option.group].add_argument(
            flag(field.name),
            *option.flags,
            dest=field.name,
            default=argparse.SUPPRESS,
            help=_help(option, field.default),
            **_settings(option),
        )
        if option.kind == "switch":
            off = flag(f"no_{field.name}")
            no_help = argparse.SUPPRESS
            parser.add_argument(
                off, dest=field.name, action="store_false", default=no_help, help=no_help
            )


def value_flags() -> set[str]:
    """Return the flags that take exactly one value."""
    found = set()
    for field in dataclasses.fields(RunOptions):
        option = option_of(field)
        if option.kind in ("value", "append"):
            found |= {flag(field.name), *option.flags}
    return found


def _help(option: Option, default: Any) -> str:
    """Return the help text, with the default if there is one."""
    shown = option.default_text or (
        "" if default is None or default is False or default == () else str(default)
    )
    return option.help + (f" ({shown})" if shown else "")


def _settings(option: Option) -> dict[str, Any]:
    """Return how argparse parses an option. `RunOptions` checks the value."""
    match option.kind:
        case "switch":
            return {"action": "store_true"}
        case "values":
            return {"nargs": "+", "metavar": option.metavar}
        case "append":
            return {"action": "append", "metavar": option.metavar}
    return {"metavar": option.metavar}
