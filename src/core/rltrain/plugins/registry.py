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
"""The core's own distribution, whose plugin no allow-list leaves out."""

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
        """Say of each plugin that cannot be used why: what the user means may be one's."""
        asleep = [record for record in self.records if record.status != "ready"]
        told = "; ".join(f"{each.name} ({each.status}: {each.reason})" for each in asleep)
        return f" Not ready: {told}" if told else ""


def discover(blocked: Sequence[str] = (), environ: Mapping[str, str] = os.environ) -> Registry:
    """Find every installed plugin.

    The variable RLTRAIN_PLUGINS, if set, is the list of plugins that may be used besides the core's
    own, separated by commas. RLTRAIN_STRICT=1 makes a broken plugin an error at once, for its
    author.

    Args:
        blocked: entry points or distributions that must not be used.
        environ: the environment variables.

    Raises:
        UsageError: a name in `blocked` is no plugin's.
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
    return Registry(_advised(records))


def _advised(records: Sequence[PluginRecord]) -> list[PluginRecord]:
    """Add to what is unmet what suites say of an upgrade."""
    suites = [spec for each in records for spec in each.specs if isinstance(spec, SuiteSpec)]
    told = {library: note for suite in suites for library, note in suite.upgrades.items()}
    return [
        replace(each, reason=f"{each.reason}. {told[each.name]}")
        if each.status == "unmet" and each.name in told
        else each
        for each in records
    ]


def _inspect(
    point: importlib.metadata.EntryPoint, blocked: set[str], only: set[str] | None
) -> PluginRecord:
    """Return what is to be said of one plugin."""
    distribution = point.dist
    # Read once: each access to a property of a distribution parses its whole metadata.
    metadata = distribution.metadata if distribution else {"Name": "unknown", "Version": "?"}
    name, version = metadata["Name"], metadata["Version"]

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
    """Return names as pip compares them: `rltrain_torch` is `rltrain-torch`."""
    return {canonicalize_name(name.strip()) for name in names}


def adapted(requires: Sequence[str]) -> list[Requirement]:
    """Return what a plugin adapts, in the versions that it supports: its extra `library`.

    Extras as supported ranges are OpenTelemetry's idea (its extra `instruments`): the library is
    the user's to install, and nothing of it need be imported to learn that it does not fit.
    """
    of_extras = [
        (requirement, requirement.marker)
        for requirement in map(Requirement, requires)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""})
    ]
    return [each for each, marker in of_extras if marker.evaluate({"extra": LIBRARY_EXTRA})]


def _unmet_requirement(requires: Sequence[str]) -> str:
    """Check what a plugin adapts against what is installed, from metadata alone."""
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
    for spec in specs:
        for name in ("frameworks", "algorithms", "required_keys"):
            if isinstance(value := getattr(spec, name, ()), str):
                raise PluginError(f"{spec.name}: {name} must be a tuple, such as ({value!r},)")
    return tuple(specs)
