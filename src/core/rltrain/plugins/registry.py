"""Discovery and selection of plugins: discovery never raises, selection always does."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rltrain.errors import PluginError, UsageError, in_a_line, suggest
from rltrain.plugins.installed import (
    NAMELESS,
    Folders,
    InstalledPlugin,
    adapted,
    declarations,
    folders,
    given_plugins,
    hooks_of,
    installed_plugins,
    is_strict,
    version_of,
)
from rltrain.plugins.ours import how_to_install
from rltrain.specs import Dialect, Spec

CORE = "rltrain"
"""The core's own distribution, whose plugin RLTRAIN_PLUGINS cannot exclude."""

Status = Literal["ready", "blocked", "unmet", "broken"]
SpecT = TypeVar("SpecT", bound=Spec)
T = TypeVar("T")


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
    plugin: InstalledPlugin | None = None

    @property
    def origin(self) -> str:
        """Distribution and version."""
        return f"{self.distribution} {self.version}"

    def ask(self, hook: str) -> list[Any]:
        """Return what the plugin answers to a hook of `DeclarationHooks`: one answer or none."""
        return list(getattr(hooks_of(self.plugin), hook)()) if self.plugin is not None else []


class Registry:
    """All plugins by kind and name."""

    def __init__(self, records: Iterable[PluginRecord]) -> None:
        self.records = tuple(records)
        self.failed: dict[str, None] = {}
        """What plugins that were not chosen did not answer, and why; in order, each once."""

    def names(self, kind: type[Spec]) -> list[str]:
        """Return the names that ready plugins provide of a kind, sorted."""
        return list(dict.fromkeys(spec.name for _, spec in self._provided(kind)))

    def all(self, kind: type[SpecT]) -> list[SpecT]:
        """Return every ready spec of a kind, sorted by name, both of a name that is given twice."""
        return [spec for _, spec in self._provided(kind)]

    def ask(
        self,
        specs: Iterable[SpecT],
        question: Callable[[SpecT], T | None],
        chosen: Collection[str] = (),
    ) -> Iterator[tuple[SpecT, T]]:
        """Yield what each of several plugins answers; None is no answer.

        What raises is left out, and `failed` says so; of the `chosen` it raises `PluginError`.
        """
        for spec in specs:
            try:
                answer = question(spec)
            except UsageError:
                raise
            except Exception as error:
                if is_strict():
                    raise
                by = next(x for x in self.records if any(spec is each for each in x.specs))
                text = (
                    f"The {spec.kind} {spec.name!r} of {by.origin} raises {in_a_line(error)}. Its "
                    f"author must fix it: --no-plugin {by.distribution} leaves it out."
                )
                if spec.name in chosen:
                    raise PluginError(text) from error
                self.failed[text] = None
            else:
                if answer is not None:
                    yield spec, answer

    def dialects(self) -> list[Dialect]:
        """Return what plugins know of other programs, whether or not these are installed."""
        found: list[Any] = []
        for record in self.records:
            if record.status in ("ready", "unmet"):  # One that is unmet may raise anything.
                with contextlib.suppress(Exception, SystemExit, GeneratorExit):
                    found += record.ask("rltrain_dialect")
        return [each for each in found if isinstance(each, Dialect)]

    def get(self, kind: type[SpecT], name: str) -> SpecT:
        """Return the spec of a name; one that is not ready or not unique is a `UsageError`."""
        found = [(record, spec) for record, spec in self._provided(kind) if spec.name == name]
        if len(found) == 1:
            return found[0][1]
        if found:
            origins = " and ".join(record.origin for record, _ in found)
            raise UsageError(
                f"The {kind.kind} {name!r} is provided twice, by {origins}. Uninstall one of them, "
                f"or block it with --no-plugin {found[-1][0].distribution}."
            )
        reason = self.unusable_reason(kind, name) or how_to_install(kind.kind, name)
        if reason is not None:
            raise UsageError(reason)
        label, known = kind.kind.replace("_", " "), self.names(kind)
        installed = f"Installed: {', '.join(known)}." if known else f"No {label} is installed."
        raise UsageError(
            f"Unknown {label} {name!r}.{suggest(name, known)} {installed}{self.not_ready(kind)}"
        )

    def _provided(self, kind: type[SpecT]) -> list[tuple[PluginRecord, SpecT]]:
        """Return what ready plugins provide of a kind, by name, without what gives way."""
        specs = [(record, spec) for record in self.records for spec in record.specs]
        found = [(record, spec) for record, spec in specs if isinstance(spec, kind)]
        taken = {spec.name for _, spec in found if not spec.overridable}
        found = [each for each in found if not (each[1].overridable and each[1].name in taken)]
        return sorted(found, key=lambda each: each[1].name)

    def unusable_reason(self, kind: type[Spec], name: str) -> str | None:
        """Return why what a plugin provides under a name cannot be used; None if none is there."""
        for record in self.unusable(kind):
            if name in (_declared(record.plugin, kind) or [record.name]):
                return (
                    f"The {kind.kind.replace('_', ' ')} {name!r} cannot be used: its plugin "
                    f"{record.origin} is {record.status}: {record.reason}"
                )
        return None

    def unusable(self, kind: type[Spec]) -> list[PluginRecord]:
        """Return the plugins of a kind that cannot be used."""
        unusable = [each for each in self.records if each.status != "ready"]
        # One that cannot be asked may have some.
        return [each for each in unusable if _declared(each.plugin, kind) != []]

    def not_ready(self, kind: type[Spec]) -> str:
        """List the plugins of a kind that cannot be used, with reasons: one may be meant."""
        unusable = self.unusable(kind)
        reasons = "; ".join(f"{each.name} ({each.status}: {each.reason})" for each in unusable)
        return "".join([f" Not ready: {reasons}."] * bool(reasons) + [f" {x}" for x in self.failed])


def discover(blocked: Sequence[str] = (), environ: Mapping[str, str] = os.environ) -> Registry:
    """Find every installed plugin.

    Those that are given (`rltrain.plugins.given`) count as installed. `blocked` names entry points
    or distributions that must not be used, and raises `UsageError` for a name that is no plugin's.
    The variable RLTRAIN_PLUGINS, if set, is a comma-separated list of the plugins that may be used
    besides the core's own. With RLTRAIN_STRICT=1, a broken plugin raises its error at once.
    """
    allowed = environ.get("RLTRAIN_PLUGINS")
    only = None if allowed is None else _spellings(*allowed.split(","))
    entries = folders()
    given = given_plugins(entries)
    values = {plugin.point.value for plugin in given}
    found = installed_plugins(entries)
    plugins = [each for each in found if each.point.value not in values] + given
    names = {each.distribution for each in plugins} - {NAMELESS} | {each.name for each in plugins}
    for name in blocked:
        if not _spellings(name) & _spellings(*names):
            hint = suggest(name, sorted(names))
            raise UsageError(f"--no-plugin {name}: no such plugin.{hint}")
    records = []
    for plugin in sorted(plugins, key=lambda plugin: plugin.name):
        record = _inspect(plugin, entries, _spellings(*blocked), only)
        if is_strict(environ) and record.error is not None:
            raise record.error
        records.append(record)
    return Registry(records)


def _inspect(
    plugin: InstalledPlugin, entries: Folders, blocked: set[str], only: set[str] | None
) -> PluginRecord:
    """Return the record of one plugin."""
    names = _spellings(plugin.name, plugin.distribution)
    record = PluginRecord(plugin.name, plugin.distribution, plugin.version, "ready", plugin=plugin)
    if blocked & names:
        return replace(record, status="blocked", reason="blocked by --no-plugin")
    if only is not None and plugin.distribution != CORE and not only & names:
        return replace(record, status="blocked", reason="not in RLTRAIN_PLUGINS")
    try:
        if unmet := _unmet_requirement(plugin.requires, plugin.name, entries):
            return replace(record, status="unmet", reason=unmet)
        specs = declarations(plugin)
    except (Exception, SystemExit, GeneratorExit) as error:
        reason = str(error) if isinstance(error, PluginError) else in_a_line(error)
        return replace(record, status="broken", reason=reason, error=error)
    return replace(record, specs=specs)


def _declared(plugin: InstalledPlugin | None, kind: type[Spec]) -> list[str] | None:
    """Return the names that a plugin declares of a kind; None if it cannot be asked."""
    try:
        specs = declarations(plugin) if plugin is not None else None
    except (Exception, SystemExit, GeneratorExit):
        return None
    return None if specs is None else [spec.name for spec in specs if isinstance(spec, kind)]


def _spellings(*names: str) -> set[str]:
    """Normalize names as pip does: `rltrain_torch` becomes `rltrain-torch`."""
    return {canonicalize_name(name.strip()) for name in names}


@functools.lru_cache
def _unmet_requirement(requires: tuple[str, ...], plugin: str, entries: Folders) -> str:
    """Describe the first requirement that is not met, or return ""; read only metadata."""
    plain = [each for each in map(Requirement, requires) if each.marker is None]
    of_core = [each for each in plain if canonicalize_name(each.name) == CORE]
    for requirement in (*of_core, *adapted(requires, plugin)):
        wanted = f"{requirement.name}{requirement.specifier}"
        version = version_of(requirement.name)
        if version is None:
            return f"needs {wanted}, which is not installed: pip install '{wanted}'"
        if not requirement.specifier.contains(version, prereleases=True):
            return f"needs {wanted}, but {version} is installed: pip install '{wanted}'"
    return ""
