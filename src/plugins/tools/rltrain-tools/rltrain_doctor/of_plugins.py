"""What plugins tell the doctor: each answers to the hook `rltrain_checkup`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rltrain.plugins import PluginRecord, Registry
from rltrain.specs import Checkup
from rltrain_doctor.findings import Finding, warning


def findings(registry: Registry) -> Iterator[Finding]:
    """Report what plugins find wrong on this machine, and plugins that fail to say so."""
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


def _all(registry: Registry) -> Iterator[Checkup]:
    for record in registry.records:
        try:
            yield from _checkups(record)
        except Exception:  # `findings` reports it.
            continue


def _checkups(record: PluginRecord) -> list[Checkup]:
    found = record.ask("rltrain_checkup") if record.status == "ready" else []
    if not all(isinstance(each, Checkup) for each in found):
        raise TypeError(f"it must be a rltrain.specs.Checkup, not {found[0]!r}")
    return found
