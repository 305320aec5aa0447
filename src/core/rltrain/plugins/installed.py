"""What is installed: plugins with their metadata, and versions. Metadata is read once."""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import os
import sys
from dataclasses import dataclass
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["GROUP", "NAMELESS", "Installed", "InstalledPlugin", "adapted"]

GROUP = "rltrain"
"""The entry-point group of plugins."""

LIBRARY_EXTRA = "library"
"""The extra in which a plugin's metadata declares the versions of the library it supports."""

NAMELESS = "unknown"
"""Stands for the name of a distribution whose metadata is damaged."""


@dataclass(frozen=True, eq=False)
class InstalledPlugin:
    """An entry point, and the metadata of its distribution; installed anew, it is another."""

    point: importlib.metadata.EntryPoint
    distribution: str
    version: str
    requires: tuple[str, ...]
    given: object | None = None
    """The plugin itself, if it is not to be imported."""

    def load(self) -> Any:
        """Return the plugin: its module, as a rule."""
        return self.point.load() if self.given is None else self.given

    @property
    def name(self) -> str:
        """Name of its entry point."""
        return self.point.name


class Installed:
    """What is installed now, in the folders of sys.path.

    The metadata of a folder is read once, until the folder changes, as it does when something is
    installed there. Reading that of hundreds of distributions takes tens of milliseconds, and a
    process asks again and again, above all one that runs tests.
    """

    def __init__(self) -> None:
        self._places = [(place, _changed(place)) for place in map(os.path.abspath, sys.path)]

    def plugins(self) -> list[InstalledPlugin]:
        """Return every plugin, sorted, so that nodes whose sys.path differs agree.

        Of two distributions of one name, the first on sys.path counts, as for imports.
        """
        found: dict[str, list[InstalledPlugin]] = {}
        for place in self._places:
            for distribution, plugins in _plugins_in(*place).items():
                found.setdefault(distribution, plugins)
        return sorted(itertools.chain(*found.values()), key=lambda plugin: plugin.name)

    def version(self, name: str) -> str | None:
        """Return the version of a distribution, or None if it is not installed."""
        return next(filter(None, (_version_in(name, *place) for place in self._places)), None)


def _changed(place: str) -> int:
    try:
        return os.stat(place).st_mtime_ns
    except OSError:
        return 0


@functools.cache
def _plugins_in(place: str, changed: int) -> dict[str, list[InstalledPlugin]]:
    """Return the plugins of each distribution in one entry of sys.path."""
    found: dict[str, list[InstalledPlugin]] = {}
    for distribution in importlib.metadata.distributions(path=[place]):
        try:
            points = [each for each in distribution.entry_points if each.group == GROUP]
            plugins = _read(distribution, points) if points else []
        except (ValueError, TypeError):  # Its metadata is damaged.
            continue
        if plugins:
            found.setdefault(canonicalize_name(plugins[0].distribution), plugins)
    return found


def _read(
    distribution: importlib.metadata.Distribution, points: list[importlib.metadata.EntryPoint]
) -> list[InstalledPlugin]:
    # Each access to a property of a distribution parses its whole metadata.
    metadata: Any = distribution.metadata
    # The backport importlib_metadata, once loaded, raises where there is no name.
    name, version = metadata.get("Name") or NAMELESS, metadata.get("Version") or "?"
    requires = tuple(distribution.requires or ())
    return [InstalledPlugin(point, name, version, requires) for point in points]


@functools.cache
def _version_in(name: str, place: str, changed: int) -> str | None:
    found = importlib.metadata.distributions(name=name, path=[place])
    return next((distribution.version for distribution in found), None)


@functools.lru_cache
def adapted(requires: tuple[str, ...]) -> tuple[Requirement, ...]:
    """Return the library that a plugin adapts, with the supported versions: its extra `library`.

    Declaring supported versions in an extra is OpenTelemetry's idea (its extra `instruments`). The
    user installs the library, and its version can be checked without importing it.
    """
    extras = [
        (requirement, requirement.marker)
        for requirement in map(Requirement, requires)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""})
    ]
    return tuple(each for each, marker in extras if marker.evaluate({"extra": LIBRARY_EXTRA}))
