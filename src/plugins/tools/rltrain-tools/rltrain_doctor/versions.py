"""Versions of Python, of rltrain and its plugins, and of what the plugins adapt."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement

from rltrain import __version__
from rltrain.plugins import Installed, PluginRecord, Registry, adapted
from rltrain.specs import LibrarySpec
from rltrain_doctor.conflicts import conflicts
from rltrain_doctor.findings import Finding, ok, problem, warning
from rltrain_doctor.of_plugins import findings

ALWAYS_WATCHED = ("numpy", "gymnasium", "rltrain")
"""Distributions that are always checked, whichever plugins are installed."""


def versions(registry: Registry, library: str | None) -> Iterator[Finding]:
    """Report which versions are installed, and whether they are in the ranges of the plugins.

    Args:
        registry: the installed plugins.
        library: the library that the user will train with; its plugin must be ready.
    """
    yield ok("Python", f"{platform.python_version()}, {sys.executable}")
    yield ok("rltrain", __version__)
    watched = {*ALWAYS_WATCHED}
    for record in registry.records:
        needed = _adapted_by(record)
        watched |= {record.distribution, *(requirement.name for requirement in needed)}
        if record.distribution != "rltrain" or record.status != "ready":
            yield _plugin(record, needed, library)
    if not registry.names(LibrarySpec):
        hint = (
            "pip install 'rltrain-rl-games[library]', or another library's plugin: `make wheels` "
            "in rltrain's clone lets pip find them"
        )
        yield problem("libraries", "No RL library can be used.", hint)
    yield from conflicts(registry.records, watched)
    yield from findings(registry)


def _plugin(record: PluginRecord, needed: Iterable[Requirement], library: str | None) -> Finding:
    name, ranges = record.distribution, [_range(requirement) for requirement in needed]
    data = {"version": record.version, "status": record.status, "adapts": ranges}
    if record.status == "ready":
        text = ", ".join(f"{each['name']} {each['installed']} ({each['range']})" for each in ranges)
        return ok(name, f"{record.version}: {text}" if text else record.version, **data)
    reason, _, command = record.reason.partition(": pip install ")
    hint = f"pip install {command}" if command else _HINTS[record.status]
    chosen = library is not None and record.name == library
    return (problem if chosen else warning)(
        name, f"{record.version} is {record.status}: {reason}", hint, **data
    )


_HINTS = {
    "blocked": "Omit --no-plugin, or add it to RLTRAIN_PLUGINS.",
    "broken": "RLTRAIN_STRICT=1 rltrain plugins shows the traceback; report it to its author.",
    "unmet": "Install what it needs.",
}


def _adapted_by(record: PluginRecord) -> tuple[Requirement, ...]:
    try:
        return adapted(tuple(importlib.metadata.requires(record.distribution) or ()), record.name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ()  # A plugin without metadata, or with metadata that cannot be parsed.


def _range(requirement: Requirement) -> dict[str, str | bool | None]:
    """Return the installed version of a package, and whether it meets a requirement."""
    installed = Installed().version(requirement.name)
    wanted = requirement.specifier
    return {
        "name": requirement.name,
        "installed": installed,
        "range": ",".join(sorted(map(str, wanted), reverse=True)) or "any",
        "met": installed is not None and wanted.contains(installed, prereleases=True),
    }
