"""Versions of Python, rltrain, its plugins and what they adapt; what plugins find wrong."""

from __future__ import annotations

import collections
import importlib.metadata
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rltrain import __version__
from rltrain.plugins import PluginRecord, Registry, adapted
from rltrain.specs import DoctorChecks, LibrarySpec
from rltrain_doctor.findings import Finding, ok, problem, warning

_HINTS = {
    "blocked": "Omit --no-plugin, or add it to RLTRAIN_PLUGINS.",
    "broken": "RLTRAIN_STRICT=1 rltrain plugins shows the traceback; report it to its author.",
    "unmet": "Install what it needs.",
}

Installed = Mapping[str, importlib.metadata.Distribution]
"""Every distribution by its canonical name; of two, the one that is imported."""


def versions(registry: Registry, library: str | None) -> Iterator[Finding]:
    """Report installed versions, whether plugins can use them, and what these find wrong.

    A plugin that is not ready is a problem if it is that of the library that the user named.
    """
    yield ok("Python", f"{platform.python_version()}, {sys.executable}")
    yield ok("rltrain", __version__)
    installed: Installed = {
        str(canonicalize_name(each.metadata["Name"])): each
        for each in reversed(list(importlib.metadata.distributions()))
        if "Name" in each.metadata
    }
    plugins = collections.Counter(record.distribution for record in registry.records)
    for record in sorted(registry.records, key=lambda record: record.distribution):
        found = installed.get(canonicalize_name(record.distribution))
        requires = found.requires if found is not None and record.status == "ready" else ()
        needed = adapted(tuple(requires or ()), record.name)
        is_one = plugins[record.distribution] == 1
        if not is_one and record.status == "unmet" and "which is not installed" in record.reason:
            continue  # Such as a tracker that is not used here.
        if record.distribution != "rltrain" or record.status != "ready":
            name = record.distribution if is_one else f"{record.distribution} {record.name}"
            yield _plugin(name, record, needed, installed, library)
    if not registry.names(LibrarySpec):
        hint = "pip install 'rltrain-rl-games[library]', or another library's plugin"
        yield problem("libraries", "No RL library can be used.", hint)
    for record in registry.records:
        try:
            for text, hint in [pair for each in _checkups(record) for pair in each.findings]:
                yield warning(record.name, text, hint)
        except Exception as error:
            text = f"cannot be asked for its checkup: {type(error).__name__}: {error}"
            yield warning(record.name, text, "Report it to its author.")


def facts(registry: Registry, framework: str) -> list[str]:
    """Return the import strings of functions that return facts about a framework."""
    found = [each.facts[framework] for each in _all(registry) if framework in each.facts]
    return list(dict.fromkeys(found))


def remedies(registry: Registry, backend: str) -> list[Mapping[str, str]]:
    """Return sets of variables that may help if a backend's ranks cannot communicate."""
    return [variables for each in _all(registry) for variables in each.remedies.get(backend, ())]


def _all(registry: Registry) -> Iterator[DoctorChecks]:
    for record in registry.records:
        try:
            yield from _checkups(record)
        except Exception:  # `versions` reports it.
            continue


def _checkups(record: PluginRecord) -> list[DoctorChecks]:
    found = record.ask("rltrain_checkup") if record.status == "ready" else []
    if not all(isinstance(each, DoctorChecks) for each in found):
        raise TypeError(f"it must be a rltrain.specs.DoctorChecks, not {found[0]!r}")
    return found


def _plugin(
    name: str,
    record: PluginRecord,
    needed: Iterable[Requirement],
    installed: Installed,
    library: str | None,
) -> Finding:
    version = record.version
    if record.status == "ready":
        found = []
        for each in needed:
            there = installed.get(canonicalize_name(each.name))
            wanted = ",".join(sorted(map(str, each.specifier), reverse=True)) or "any"
            found.append(f"{each.name} {there and there.version} ({wanted})")
        return ok(name, ": ".join(filter(None, [version, ", ".join(found)])))
    reason, _, command = record.reason.partition(": pip install ")
    hint = f"pip install {command}" if command else _HINTS[record.status]
    text = f"{version} is {record.status}: {reason}"
    return (problem if record.name == library else warning)(name, text, hint, status=record.status)
