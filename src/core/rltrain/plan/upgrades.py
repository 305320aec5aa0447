"""Versions that have changed between a run and the one that goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from rltrain.config import RunConfig
from rltrain.plugins.installed import adapted
from rltrain.plugins.manager import chosen_specs
from rltrain.plugins.registry import Registry
from rltrain.specs import LauncherSpec
from rltrain.storage.manifest import read_manifest, versions

_LONGEST = 60
"""Characters of a version. The manifest may be somebody else's."""


def changed_versions(checkpoint: Path, config: RunConfig, registry: Registry) -> str | None:
    """Return a note on what has another version than in the run that wrote a checkpoint.

    Python, rltrain, the run's own plugins and what they adapt are compared, the framework among
    them. None if nothing has changed, or the manifest does not say.
    """
    manifest = read_manifest(checkpoint.parent.parent) or {}
    recorded = manifest.get("versions")
    if not isinstance(recorded, Mapping):
        return None
    now = versions()
    changed = [
        f"{name} {before} -> {now[name]}"
        for name in _of_run(config, registry)
        if name in now and _is_other(before := recorded.get(name), now[name])
    ]
    if not changed:
        return None
    return (
        f"{checkpoint}: was written with other versions: {', '.join(changed)}. The run goes on, "
        "but may not end as one that never stopped."
    )


def _of_run(config: RunConfig, registry: Registry) -> list[str]:
    """Return the distributions that a run is made of."""
    specs = chosen_specs(config, registry)
    if config.launcher is not None:
        specs.append(registry.get(LauncherSpec, config.launcher))
    names = ["python", "rltrain"]
    for record in registry.records:
        if record.plugin is not None and any(spec in specs for spec in record.specs):
            needed = adapted(record.plugin.requires, record.name)
            names += [record.distribution, *(each.name for each in needed)]
    return list(dict.fromkeys(names))


def _is_other(before: Any, now: str) -> bool:
    try:
        return len(before) <= _LONGEST and Version(before) != Version(now)
    except (InvalidVersion, TypeError):  # It was not installed, or the file was changed.
        return False
