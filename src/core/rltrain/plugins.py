"""Discovery and selection of plugins: discovery never raises, selection always does."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pluggy
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rltrain.errors import PluginError, UsageError, suggest
from rltrain.hookspecs import DeclarationHooks, RunHooks
from rltrain.specs import KINDS, Spec

__all__ = ["GROUP", "PluginRecord", "Registry", "RunPlugins", "discover", "load_object"]

GROUP = "rltrain"
"""The entry-point group of plugins."""

LIBRARY_EXTRA = "library"
"""The extra under which a plugin's metadata names the supported range of what it adapts."""

Status = Literal["ready", "blocked", "unmet", "broken"]
SpecT = TypeVar("SpecT", bound=Spec)


@dataclass(frozen=True)
class PluginRecord:
    """One installed plugin and what became of it."""

    name: str
    """Name of its entry point."""
    distribution: str
    version: str
    status: Status
    reason: str = ""
    """Why it is not ready."""
    specs: tuple[Spec, ...] = ()
    """What it provides; empty unless it is ready."""
    error: BaseException | None = None

    @property
    def origin(self) -> str:
        """Distribution and version."""
        return f"{self.distribution} {self.version}"


class Registry:
    """All plugins by kind and name."""

    def __init__(self, records: Iterable[PluginRecord]) -> None:
        self.records = tuple(records)

    def names(self, kind: type[Spec]) -> list[str]:
        """Return the names that ready plugins provide of a kind, sorted."""
        return sorted({spec.name for _, spec in self._provided(kind)})

    def all(self, kind: type[SpecT]) -> list[SpecT]:
        """Return every ready spec of a kind, sorted by name."""
        return [self.get(kind, name) for name in self.names(kind)]

    def record_of(self, spec: Spec) -> PluginRecord:
        """Return the plugin that provides a spec."""
        return next(record for record, provided in self._provided(type(spec)) if provided is spec)

    def get(self, kind: type[SpecT], name: str) -> SpecT:
        """Return the spec of a name.

        Raises:
            UsageError: there is none, its plugin is not ready, or two plugins provide it.
        """
        found = [(record, spec) for record, spec in self._provided(kind) if spec.name == name]
        if not found:
            raise UsageError(self._missing(kind, name))
        if len(found) > 1:
            origins = " and ".join(record.origin for record, _ in found)
            raise UsageError(
                f"The {kind.kind} {name!r} is provided twice, by {origins}. Uninstall one of them, "
                f"or block it with --no-plugin {found[-1][0].distribution}."
            )
        return found[0][1]

    def _provided(self, kind: type[SpecT]) -> list[tuple[PluginRecord, SpecT]]:
        return [
            (record, spec)
            for record in self.records
            for spec in record.specs
            if isinstance(spec, kind)
        ]

    def _missing(self, kind: type[Spec], name: str) -> str:
        label = kind.kind.replace("_", " ")
        known = self.names(kind)
        asleep = [record for record in self.records if record.status != "ready"]
        for record in asleep:
            if record.name == name:
                return (
                    f"The {label} {name!r} cannot be used: its plugin {record.origin} is "
                    f"{record.status}: {record.reason}"
                )
        message = f"Unknown {label} {name!r}.{suggest(name, known)}"
        message += f" Installed: {', '.join(known)}." if known else f" No {label} is installed."
        if asleep:
            message += " Not ready: " + "; ".join(
                f"{record.name} ({record.status}: {record.reason})" for record in asleep
            )
        return message


def discover(blocked: Sequence[str] = (), environ: Mapping[str, str] = os.environ) -> Registry:
    """Find every installed plugin.

    The variable RLTRAIN_PLUGINS, if set, is the list of plugins that may be used, separated by
    commas; RLTRAIN_STRICT=1 makes a broken plugin an error at once, for its author.

    Args:
        blocked: entry points or distributions that must not be used.
        environ: the environment variables.

    Raises:
        Exception: only with RLTRAIN_STRICT=1, whatever a broken plugin raised.
    """
    allowed = environ.get("RLTRAIN_PLUGINS")
    only = None if allowed is None else _spellings(*allowed.split(","))
    strict = environ.get("RLTRAIN_STRICT", "0") not in ("", "0")
    # Sorted, so that nodes whose sys.path differs see the same order.
    points = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name)
    records = []
    for point in points:
        record = _inspect(point, _spellings(*blocked), only)
        if strict and record.error is not None:
            raise record.error
        records.append(record)
    return Registry(records)


def _inspect(
    point: importlib.metadata.EntryPoint, blocked: set[str], only: set[str] | None
) -> PluginRecord:
    """Return what is to be said of one plugin."""
    distribution = point.dist
    name = distribution.name if distribution else "unknown"
    version = distribution.version if distribution else "?"

    def record(status: Status, reason: str = "", **more: Any) -> PluginRecord:
        return PluginRecord(point.name, name, version, status, reason, **more)

    if blocked & _spellings(point.name, name):
        return record("blocked", "blocked by --no-plugin")
    if only is not None and not only & _spellings(point.name, name):
        return record("blocked", "not in RLTRAIN_PLUGINS")
    try:
        unmet = _unmet_requirement(distribution.requires or [] if distribution else [])
        if unmet:
            return record("unmet", unmet)
        return record("ready", specs=_declarations(point))
    except (Exception, SystemExit) as error:
        return record("broken", f"{type(error).__name__}: {error}", error=error)


def _spellings(*names: str) -> set[str]:
    """Return names as pip compares them: `rltrain_torch` is `rltrain-torch`."""
    return {canonicalize_name(name.strip()) for name in names}


def _unmet_requirement(requires: Sequence[str]) -> str:
    """Check the `library` extra against what is installed, from metadata alone.

    Extras as supported ranges are OpenTelemetry's idea (its extra `instruments`): the library is
    the user's to install, and nothing of it need be imported to learn that it does not fit.
    """
    for requirement in map(Requirement, requires):
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}):
            continue
        if not marker.evaluate({"extra": LIBRARY_EXTRA}):
            continue
        wanted = f"{requirement.name}{requirement.specifier}"
        try:
            installed = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            return f"needs {wanted}, which is not installed: pip install '{wanted}'"
        if not requirement.specifier.contains(installed, prereleases=True):
            return f"needs {wanted}, but {installed} is installed: pip install '{wanted}'"
    return ""


def _declarations(point: importlib.metadata.EntryPoint) -> tuple[Spec, ...]:
    """Import a plugin's module and consume its declarations."""
    manager = pluggy.PluginManager("rltrain")
    manager.add_hookspecs(DeclarationHooks)
    manager.register(point.load(), name=point.name)
    manager.check_pending()
    specs: list[Spec] = []
    for provided in manager.hook.rltrain_provides():
        # Consumed here, so that an error in a generator counts as the plugin's.
        specs.extend(provided)
    wrong = [spec for spec in specs if not isinstance(spec, tuple(KINDS.values()))]
    if wrong or not specs:
        what = f"got {wrong[0]!r}" if wrong else "got none (is @hookimpl missing?)"
        raise PluginError(f"rltrain_provides must return specs from rltrain.specs; {what}")
    return tuple(specs)


def load_object(path: str) -> Any:
    """Import what an import string "package.module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


class RunPlugins:
    """The plugins of one run: exactly those that were chosen, on a manager of their own."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager("rltrain")
        self._manager.add_hookspecs(RunHooks)

    @property
    def hook(self) -> Any:
        """The callers of the run hooks."""
        return self._manager.hook

    def choose(self, spec: Spec) -> Any:
        """Load a spec's class, make one object of it, and register its hooks.

        Raises:
            PluginError: the class cannot be loaded or lacks a hook that its kind must implement.
        """
        label = f"{spec.kind} {spec.name!r} ({spec.factory})"
        try:
            plugin = load_object(spec.factory)()
        except Exception as error:
            raise PluginError(
                f"The {label} could not be loaded: {type(error).__name__}: {error}"
            ) from error
        self.register(plugin, f"{spec.kind}:{spec.name}", label)
        caller_names = {caller.name for caller in self._manager.get_hookcallers(plugin) or []}
        missing = [
            name
            for name in type(spec).requires
            if name not in caller_names and not callable(getattr(plugin, name, None))
        ]
        unmarked = [
            name
            for name in type(spec).requires
            if name.startswith("rltrain_") and name not in caller_names and name not in missing
        ]
        if missing or unmarked:
            self._manager.unregister(plugin)
            hint = f"implement {', '.join(missing)}" if missing else f"mark {unmarked[0]}"
            raise PluginError(
                f"The {label} does not implement what a {spec.kind} must: {hint} with "
                f"@rltrain.hookimpl. Required: {', '.join(type(spec).requires)}."
            )
        return plugin

    def register(self, plugin: object, name: str, label: str = "") -> None:
        """Register an object's hooks under a unique name.

        Raises:
            PluginError: it implements a hook that does not exist, or with wrong arguments.
        """
        try:
            self._manager.register(plugin, name=name)
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            # A plugin that fails half way would stay registered, and answer.
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            hooks = [hook for hook in vars(RunHooks) if hook.startswith("rltrain_")]
            raise PluginError(
                f"The {label or name} breaks the hook contract: {error}. Hooks: {', '.join(hooks)}."
            ) from error

    def call_each(self, hook: str, **arguments: Any) -> list[BaseException]:
        """Call a hook of every plugin, though one raises; return what was raised."""
        plugins = [plugin for _, plugin in self._manager.list_name_plugin() if plugin is not None]
        errors: list[BaseException] = []
        for plugin in plugins:
            others = [other for other in plugins if other is not plugin]
            try:
                self._manager.subset_hook_caller(hook, others)(**arguments)
            except BaseException as error:
                errors.append(error)
        return errors

    def first(self, hook: str, origin: str, **arguments: Any) -> Any:
        """Call a first-result hook.

        Raises:
            PluginError: the result is None.
        """
        result = getattr(self._manager.hook, hook)(**arguments)
        if result is None:
            raise PluginError(f"{hook} returned None; it is implemented by the {origin}.")
        return result
