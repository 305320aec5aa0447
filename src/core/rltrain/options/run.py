"""What the user sets of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.config.declare import option_of
from rltrain.config.options import AMOUNT, SIZE, Options
from rltrain.errors import UsageError, suggest
from rltrain.files.dotted import flatten


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options[None, str]):
    """The options that the user set. None leaves the choice to rltrain."""

    scale_minibatches: bool = SIZE.switch(
        AMOUNT,
        "keep the number of mini-batches that the library's options give for the number of "
        "environments they were written for",
    )

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> RunOptions:
        """Check names, types and ranges, and return the options; None means the default."""
        fields = {item.name: item for item in dataclasses.fields(cls)}
        checked: dict[str, Any] = {}
        sections: dict[str, Any] = {}
        for name, value in options.items():
            if name not in fields:
                # A section for a plugin: {"csv": {"flush": 10}}, or dotted, "csv.flush".
                if not isinstance(value, Mapping) and "." not in name:
                    raise UsageError(f"Unknown option {name!r}.{suggest(name, fields)}")
                sections[name] = value
            elif value is not None:
                checked[name] = option_of(fields[name]).check(name, value)
        if sections:
            checked["plugins"] = by_plugin({**checked.get("plugins", {}), **sections})
        return cls(**checked)

    @property
    def shared(self) -> dict[str, Any]:
        """The options that the resolved run has, too, by name."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(Options)}


def overlay(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a file, or of the run before, with the user's own, which win."""
    own = {name: value for name, value in given.items() if name not in ("agent", "env", "plugins")}
    own |= dict(flatten(given.get("plugins") or {}))
    sections = {
        name: {**dict(flatten(before.get(name) or {})), **dict(flatten(given.get(name) or {}))}
        for name in ("agent", "env")
    }
    fields = [each for each in dataclasses.fields(RunOptions) if each.name in own]
    replaced = {name for each in fields for name in option_of(each).replaces}
    left = {name: value for name, value in before.items() if name not in replaced}
    return {**left, **own, **sections}


def by_plugin(sections: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return plugins' options, nested or dotted, as {plugin's name: {option: value}}."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in flatten(sections):
        name, _, option = key.partition(".")
        options = found.setdefault(name, {})
        if option or value:  # A section may be empty.
            options[option] = value
    return found
