"""Discovery and selection of plugins: discovery never raises, selection always does."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import pluggy
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rltrain.errors import PluginError, UsageError, suggest
from rltrain.hookspecs import DeclarationHooks
from rltrain.specs import KINDS, Spec, SuiteSpec

__all__ = ["GROUP", "PluginRecord", "Registry", "adapted", "discover"]

GROUP = "rltrain"
"""The entry-point group of plugins."""

CORE = "rltrain"
"""The core's own distribution, whose plugin RLTRAIN_PLUGINS cannot exclude."""

LIBRARY_EXTRA = "library"
"""The extra in which a plugin's metadata declares the versions of the library it supports."""

Status = Literal["ready", "blocked", "unmet", "broken"]
SpecT = TypeVar("SpecT", bound=Spec)


@dataclass(frozen=True)
class PluginRecord:
    """One installed plugin and its status."""

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
        for record in self.records:
            if record.status != "ready" and record.name == name:
                return (
                    f"The {label} {name!r} cannot be used: its plugin {record.origin} is "
                    f"{record.status}: {record.reason}"
                )
        message = f"Unknown {label} {name!r}.{suggest(name, known)}"
        message += f" Installed: {', '.join(known)}." if known else f" No {label} is installed."
        return message + self.not_ready()

    def not_ready(self) -> str:
        """List the plugins that cannot be used, with reasons: the user may have meant one."""
        unusable = [record for record in self.records if record.status != "ready"]
        reasons = "; ".join(f"{each.name} ({each.status}: {each.reason})" for each in unusable)
        return f" Not ready: {reasons}" if reasons else ""


def discover(blocked: Sequence[str] = (), environ: Mapping[str, str] = os.environ) -> Registry:
    """Find every installed plugin.

    The variable RLTRAIN_PLUGINS, if set, is a comma-separated list of the plugins that may be used
    besides the core's own. With RLTRAIN_STRICT=1, which helps plugin authors, a broken plugin
    raises its error immediately.

    Args:
        blocked: entry points or distributions that must not be used.
        environ: the environment variables.

    Raises:
        UsageError: a name in `blocked` is not a plugin's.
        Exception: only with RLTRAIN_STRICT=1, whatever a broken plugin raised.
    """
    allowed = environ.get("RLTRAIN_PLUGINS")
    only = None if allowed is None else _spellings(*allowed.split(","))
    strict = environ.get("RLTRAIN_STRICT", "0") not in ("", "0")
    # Sorted, so that nodes whose sys.path differs see the same order.
    points = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name)
    records = []
    _check_known(blocked, points)
    for point in points:
        record = _inspect(point, _spellings(*blocked), only)
        if strict and record.error is not None:
            raise record.error
        records.append(record)
    return Registry(_with_upgrade_notes(records))


def _with_upgrade_notes(records: Sequence[PluginRecord]) -> list[PluginRecord]:
    """Append the suites' notes on upgrades to the reasons of unmet plugins."""
    suites = [spec for each in records for spec in each.specs if isinstance(spec, SuiteSpec)]
    notes = {library: note for suite in suites for library, note in suite.upgrades.items()}
    return [
        replace(each, reason=f"{each.reason}. {notes[each.name]}")
        if each.status == "unmet" and each.name in notes
        else each
        for each in records
    ]


def _inspect(
    point: importlib.metadata.EntryPoint, blocked: set[str], only: set[str] | None
) -> PluginRecord:
    """Return the record of one plugin."""
    distribution = point.dist
    # Read once: each access to a property of a distribution parses its whole metadata.
    metadata: Any = distribution.metadata if distribution else {}
    name, version = metadata.get("Name") or "unknown", metadata.get("Version") or "?"

    def record(status: Status, reason: str = "", **more: Any) -> PluginRecord:
        return PluginRecord(point.name, name, version, status, reason, **more)

    if blocked & _spellings(point.name, name):
        return record("blocked", "blocked by --no-plugin")
    if only is not None and name != CORE and not only & _spellings(point.name, name):
        return record("blocked", "not in RLTRAIN_PLUGINS")
    try:
        unmet = _unmet_requirement(distribution.requires or [] if distribution else [])
        if unmet:
            return record("unmet", unmet)
        return record("ready", specs=_declarations(point))
    except (Exception, SystemExit) as error:
        return record("broken", f"{type(error).__name__}: {error}", error=error)


def _check_known(blocked: Sequence[str], points: Sequence[importlib.metadata.EntryPoint]) -> None:
    known = {name for point in points for name in (point.name, point.dist and point.dist.name)}
    names = sorted(name for name in known if name)
    for name in blocked:
        if not _spellings(name) & _spellings(*names):
            raise UsageError(f"--no-plugin {name}: no such plugin.{suggest(name, names)}")


def _spellings(*names: str) -> set[str]:
    """Normalize names as pip does: `rltrain_torch` becomes `rltrain-torch`."""
    return {canonicalize_name(name.strip()) for name in names}


def adapted(requires: Sequence[str]) -> list[Requirement]:
    """Return the library that a plugin adapts, with the supported versions: its extra `library`.

    Declaring supported versions in an extra is OpenTelemetry's idea (its extra `instruments`). The
    user installs the library, and its version can be checked without importing it.
    """
    extras = [
        (requirement, requirement.marker)
        for requirement in map(Requirement, requires)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""})
    ]
    return [each for each, marker in extras if marker.evaluate({"extra": LIBRARY_EXTRA})]


def _unmet_requirement(requires: Sequence[str]) -> str:
    """Describe the first requirement that is not met, or return ""; read only metadata."""
    for requirement in adapted(requires):
        wanted = f"{requirement.name}{requirement.specifier}"
        try:
            installed = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            return f"needs {wanted}, which is not installed: pip install '{wanted}'"
        if not requirement.specifier.contains(installed, prereleases=True):
            return f"needs {wanted}, but {installed} is installed: pip install '{wanted}'"
    return ""


def _declarations(point: importlib.metadata.EntryPoint) -> tuple[Spec, ...]:
    """Import a plugin's module and return its declared specs."""
    manager = pluggy.PluginManager("rltrain")
    manager.add_hookspecs(DeclarationHooks)
    manager.register(point.load(), name=point.name)
    manager.check_pending()
    specs: list[Spec] = []
    for provided in manager.hook.rltrain_provides():
        # Consume generators here, so that their errors count as the plugin's.
        specs.extend(provided)
    wrong = [spec for spec in specs if not isinstance(spec, tuple(KINDS.values()))]
    if wrong or not specs:
        what = f"got {wrong[0]!r}" if wrong else "got none (is @hookimpl missing?)"
        raise PluginError(f"rltrain_provides must return specs from rltrain.specs; {what}")
    for spec in specs:
        if not spec.name or not isinstance(spec.name, str):
            raise PluginError(f"a {spec.kind}'s name must be text, not {spec.name!r}")
        for name in ("frameworks", "algorithms", "required_keys"):
            if not isinstance(value := getattr(spec, name, ()), (tuple, list, set, frozenset)):
                raise PluginError(f"{spec.name}: {name} must be a tuple, such as ({value!r},)")
        for name in ("describe", "tasks"):
            if not callable(value := getattr(spec, name, len)):
                raise PluginError(f"{spec.name}: {name} must be a function, not {value!r}")
        if not isinstance(spec.summary, str):
            raise PluginError(f"{spec.name}: summary must be text, not {spec.summary!r}")
    return tuple(specs)
