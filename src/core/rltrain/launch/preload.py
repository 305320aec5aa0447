"""What every rank of a run imports, for launchers that fork ranks."""

from __future__ import annotations

from rltrain.config import Placement, RunConfig
from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec

__all__ = ["imports_of_library"]


def imports_of_library(config: Placement) -> str | None:
    """Return the module that imports what the run's library needs; see `LibrarySpec.preload`."""
    if not isinstance(config, RunConfig):
        return None
    spec = discover(config.no_plugins).get(LibrarySpec, config.library)
    return spec.preload.get(config.device_kind)
