"""The flags of a run, and of each other command, made from the fields of a dataclass."""

from __future__ import annotations

import argparse
import dataclasses
from argparse import SUPPRESS
from collections.abc import Iterable
from typing import Any, TypeVar

from rltrain.config.checks import flag
from rltrain.config.declare import Group, Option, option_of
from rltrain.options.run import RunOptions

OWN = Group("options")
"""Where argparse shows what is in no other group: for a command's own options."""

OptionsT = TypeVar("OptionsT")


def add_flags(
    parser: argparse.ArgumentParser,
    names: Iterable[str] | None = None,
    of: type[Any] = RunOptions,
) -> None:
    """Add flags in their groups, all or those of `names`; one that is not given leaves no value.

    `of` is the dataclass that declares them: the options of a run, or a command's own.
    """
    groups: dict[str, Any] = {OWN.title: parser}
    for field in dataclasses.fields(of):
        option = option_of(field)
        if option.kind == "none" or (names is not None and field.name not in names):
            continue
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        words, settings = [flag(field.name), *option.flags], _settings(option)
        if option.kind in ("word", "words"):
            words = [field.name]
        else:
            settings["dest"] = field.name
        help = _help(option, field.default)
        groups[option.group].add_argument(*words, default=SUPPRESS, help=help, **settings)
        if option.kind == "switch":
            off = flag(f"no_{field.name}")
            parser.add_argument(
                off, dest=field.name, action="store_false", default=SUPPRESS, help=SUPPRESS
            )


def read_flags(of: type[OptionsT], arguments: argparse.Namespace) -> OptionsT:
    """Return a command's own options, from the dataclass given to `add_flags`, checked."""
    found = vars(arguments)
    declared = {each.name: option_of(each) for each in dataclasses.fields(of)}  # type: ignore[arg-type]
    given = {name: each for name, each in declared.items() if found.get(name) is not None}
    return of(**{name: each.check(name, found[name]) for name, each in given.items()})


def value_flags(of: type[Any]) -> set[str]:
    """Return the flags that take exactly one value."""
    found = set()
    for field in dataclasses.fields(of):
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
    """Return how argparse parses an option, whose value is checked afterwards."""
    needed: dict[str, Any] = {"required": True} if option.required else {}
    match option.kind:
        case "word":
            return {"metavar": option.metavar, **({} if option.required else {"nargs": "?"})}
        case "words":
            return {"metavar": option.metavar, "nargs": "+" if option.required else "*"}
        case "switch":
            return {"action": "store_true"}
        case "values":
            return {"nargs": "+", "metavar": option.metavar, **needed}
        case "more":
            return {"nargs": "+", "action": "extend", "metavar": option.metavar, **needed}
        case "append":
            return {"action": "append", "metavar": option.metavar, **needed}
    return {"metavar": option.metavar, **needed}
