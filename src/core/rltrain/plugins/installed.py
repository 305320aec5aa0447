"""The plugins there are, by their metadata: those installed, and those given to a process."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rltrain.errors import UsageError

GROUP = "rltrain"
"""The entry-point group of plugins."""

NAMELESS = "unknown"
"""Stands for the name of a distribution whose metadata is damaged."""

MODULES = "RLTRAIN_MODULES"
"""The variable that names modules that are plugins, separated by commas: ranks inherit it."""


@dataclass(frozen=True, eq=False)
class InstalledPlugin:
    """An entry point, and the metadata of its distribution; installed anew, it is another."""

    point: importlib.metadata.EntryPoint
    distribution: str
    version: str
    requires: tuple[str, ...]
    given: object | None = None
    """The plugin itself, if it is not to be imported."""

    @property
    def name(self) -> str:
        """Name of its entry point."""
        return self.point.name


def _folders() -> tuple[tuple[str, int], ...]:
    return tuple((entry, _changed(entry)) for entry in map(os.path.abspath, sys.path))


def _changed(entry: str) -> int:
    try:
        return os.stat(entry).st_mtime_ns
    except OSError:
        return 0


@dataclass(frozen=True)
class Installed:
    """What is installed now, in the folders of sys.path.

    The metadata of a folder is read once, until the folder changes, as it does when something is
    installed there. Reading that of hundreds of distributions takes tens of milliseconds, and a
    process asks again and again, above all one that runs tests.
    """

    _entries: tuple[tuple[str, int], ...] = field(init=False, default_factory=_folders)
    """The folders, and when each has changed."""

    def plugins(self) -> list[InstalledPlugin]:
        """Return every plugin, sorted, so that nodes whose sys.path differs agree.

        Of two distributions of one name, the first on sys.path counts, as for imports.
        """
        found: dict[str, list[InstalledPlugin]] = {}
        for entry in self._entries:
            for distribution, plugins in _plugins_in(*entry).items():
                found.setdefault(distribution, plugins)
        return sorted(itertools.chain(*found.values()), key=lambda plugin: plugin.name)

    def version(self, name: str) -> str | None:
        """Return the version of a distribution, or None if it is not installed."""
        found = (_version_in(name, *entry) for entry in self._entries)
        return next(filter(None, found), None)


@functools.cache
def _plugins_in(entry: str, changed: int) -> dict[str, list[InstalledPlugin]]:
    """Return the plugins of each distribution in one entry of sys.path."""
    found: dict[str, list[InstalledPlugin]] = {}
    for distribution in importlib.metadata.distributions(path=[entry]):
        try:
            if points := [each for each in distribution.entry_points if each.group == GROUP]:
                # Each access to a property of a distribution parses its whole metadata.
                metadata: Any = distribution.metadata
                # The backport importlib_metadata, once loaded, raises where there is no name.
                name, version = metadata.get("Name") or NAMELESS, metadata.get("Version") or "?"
                about = (name, version, tuple(distribution.requires or ()))
                plugins = [InstalledPlugin(point, *about) for point in points]
                found.setdefault(canonicalize_name(name), plugins)
        except (ValueError, TypeError):  # Its metadata is damaged.
            continue
    return found


@functools.cache
def _version_in(name: str, entry: str, changed: int) -> str | None:
    found = importlib.metadata.distributions(name=name, path=[entry])
    return next((distribution.version for distribution in found), None)


@functools.lru_cache
def adapted(requires: tuple[str, ...], plugin: str = "library") -> tuple[Requirement, ...]:
    """Return what a plugin adapts, with the supported versions.

    They are in the extra that has the name of its entry point, or else in the extra `library`. The
    idea is OpenTelemetry's (its extra `instruments`): the version is checked without an import.
    """
    marked = [(each, each.marker) for each in map(Requirement, requires) if each.marker]
    added = [(each, marker) for each, marker in marked if not marker.evaluate({"extra": ""})]
    of = {
        name: [x for x, marker in added if marker.evaluate({"extra": name})]
        for name in (plugin, "library")
    }
    return tuple(of[plugin] or of["library"])


_HERE: list[InstalledPlugin] = []
"""What is given in this process."""


@contextlib.contextmanager
def given(plugins: Iterable[object]) -> Iterator[None]:
    """Use plugins inside as if they were installed, here and on ranks that are started here.

    Args:
        plugins: modules, or objects with the hook `rltrain_provides`. Such an object is found in
            this process only. One that is installed, too, is not found twice.
    """
    before, saved = _HERE[:], os.environ.get(MODULES)
    for each in plugins:
        _HERE.append(_plugin(str(getattr(each, "__name__", type(each).__name__)), each))
    names = [each.name for each in _HERE if isinstance(each.given, ModuleType)]
    os.environ[MODULES] = ",".join(dict.fromkeys([*_named(), *names]))
    try:
        yield
    finally:
        _HERE[:] = before
        del os.environ[MODULES]
        os.environ.update({} if saved is None else {MODULES: saved})


@contextlib.contextmanager
def without_given(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a run's options without the plugins that they give, which are used inside."""
    plugins = options.get("plugins", ())
    if isinstance(plugins, Mapping):  # Options of plugins, by name.
        yield dict(options)
        return
    with given(plugins):
        yield {name: value for name, value in options.items() if name != "plugins"}


def given_plugins(installed: Installed) -> list[InstalledPlugin]:
    """Return the plugins that are given, here or by who has started this process."""
    here = {each.name for each in _HERE}
    return [*_HERE, *(_inherited(name, installed) for name in _named() if name not in here)]


def check_travel() -> None:
    """Refuse to start ranks that would not find a plugin that is given here."""
    for plugin in _HERE:
        if not (isinstance(plugin.given, ModuleType) and _is_found(plugin.given)):
            raise UsageError(
                f"plugins: {plugin.name} cannot be imported by ranks, which are processes of their "
                "own. Put it in a module in a folder of PYTHONPATH, or train on fake ranks."
            )


def _is_found(module: ModuleType) -> bool:
    """Whether a process with the same sys.path imports the same file under the module's name."""
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    places = getattr(package, "__path__", None)
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    found = (find(module.__name__, places) for find in finders if find is not None)
    spec = next(filter(None, found), None)
    return spec is not None and spec.origin == getattr(module, "__file__", None)


def _plugin(name: str, plugin: object | None) -> InstalledPlugin:
    point = importlib.metadata.EntryPoint(name, name, GROUP)
    return InstalledPlugin(point, name, "(given)", (), plugin)


@functools.lru_cache
def _inherited(name: str, installed: Installed) -> InstalledPlugin:
    """Return what a module is as a plugin: one object, so that it is asked once."""
    return _plugin(name, None)


def _named() -> list[str]:
    return [name.strip() for name in os.environ.get(MODULES, "").split(",") if name.strip()]
