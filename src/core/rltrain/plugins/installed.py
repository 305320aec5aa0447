"""The plugins there are, installed or given to a process, and what each declares."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rltrain.errors import PluginError, UsageError
from rltrain.files.reading import changed_at
from rltrain.hookspecs import DeclarationHooks
from rltrain.specs import Spec

GROUP = "rltrain"
"""The entry-point group of plugins."""

NAMELESS = "unknown"
"""Stands for the name of a distribution whose metadata is damaged."""

MODULES = "RLTRAIN_MODULES"
"""The variable that names modules that are plugins, separated by commas: ranks inherit it."""


@dataclass(frozen=True, eq=False)
class InstalledPlugin:
    """An entry point, and the metadata of its distribution; installed again, it is another."""

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


@functools.lru_cache
def hooks_of(plugin: InstalledPlugin) -> Any:
    """Import a plugin's module and return the callers of its hooks."""
    found = plugin.point.load() if plugin.given is None else plugin.given
    manager = pluggy.PluginManager("rltrain")
    manager.add_hookspecs(DeclarationHooks)
    register(manager, found, plugin.name)
    if not manager.get_hookcallers(found):
        raise PluginError(
            f"the entry point names {plugin.point.value!r}, which has no rltrain_provides: name "
            "the module whose function has this name and @rltrain.hookimpl"
        )
    return manager.hook


def register(manager: pluggy.PluginManager, plugin: object, name: str) -> None:
    """Register a plugin whose hooks are those that the manager knows."""
    try:
        manager.register(plugin, name=name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        if manager.has_plugin(name):
            manager.unregister(name=name)
        raise PluginError(" ".join(str(error).split())) from error


@functools.lru_cache
def declarations(plugin: InstalledPlugin) -> tuple[Spec, ...]:
    """Return the specs that a plugin declares; it is asked once."""
    specs = [spec for found in hooks_of(plugin).rltrain_provides() for spec in found]
    if wrong := [spec for spec in specs if not isinstance(spec, Spec)]:
        raise PluginError(
            f"rltrain_provides must return specs from rltrain.specs; got {wrong[0]!r}"
        )
    return tuple(specs)


def is_strict(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether what a plugin raises is raised as it is, for its author."""
    return environ.get("RLTRAIN_STRICT", "0") not in ("", "0")


Folders = tuple[tuple[str, int], ...]


def folders() -> Folders:
    """Return the folders of sys.path, and when each has changed, as when something is installed.

    While they are equal, what was read counts: metadata of hundreds of distributions takes tens of
    milliseconds, and a process asks often.
    """
    return tuple((entry, changed_at(Path(entry))) for entry in map(os.path.abspath, sys.path))


def version_of(name: str) -> str | None:
    """Return the version of a distribution, or None if it is not installed."""
    found = importlib.metadata.distributions(name=name)
    return next((distribution.version for distribution in found), None)


@functools.cache
def installed_plugins(entries: Folders) -> list[InstalledPlugin]:
    """Return every plugin, sorted, so that nodes whose sys.path differs agree.

    Of two distributions of one name, the first on sys.path counts.
    """
    found: dict[str, list[InstalledPlugin]] = {}
    for distribution in importlib.metadata.distributions():
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
    return sorted(itertools.chain(*found.values()), key=lambda plugin: plugin.name)


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

    They are modules, or objects with the hook `rltrain_provides`, found in this process only.
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


def given_plugins(entries: Folders) -> list[InstalledPlugin]:
    """Return the plugins that are given, here or by who has started this process."""
    here = {each.name for each in _HERE}
    return [*_HERE, *(_inherited(name, entries) for name in _named() if name not in here)]


def check_travel() -> None:
    """Refuse to start ranks that would not find a plugin that is given here."""
    for plugin in _HERE:
        if not isinstance(plugin.given, ModuleType) or plugin.given.__spec__ is None:
            raise UsageError(
                f"plugins: {plugin.name} cannot be imported by ranks, which are processes of their "
                "own. Put it in a module in a folder of PYTHONPATH, or train on fake ranks."
            )


def _plugin(name: str, plugin: object | None) -> InstalledPlugin:
    point = importlib.metadata.EntryPoint(name, name, GROUP)
    return InstalledPlugin(point, name, "(given)", (), plugin)


@functools.lru_cache
def _inherited(name: str, entries: Folders) -> InstalledPlugin:
    """Return what a module is as a plugin: one object, so that it is asked once."""
    return _plugin(name, None)


def _named() -> list[str]:
    return [name.strip() for name in os.environ.get(MODULES, "").split(",") if name.strip()]
