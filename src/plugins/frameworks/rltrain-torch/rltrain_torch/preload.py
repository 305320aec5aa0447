"""What every rank of a run imports: it is imported once, before ranks are forked."""

from __future__ import annotations

from rltrain.config import Placement, RunConfig
from rltrain.plugins import discover
from rltrain.specs import LibrarySpec


def imports_of_library(config: Placement) -> str | None:
    """Return the module that imports what the run's library needs; see `LibrarySpec.preload`."""
    if not isinstance(config, RunConfig):
        return None
    spec = discover(config.no_plugins).get(LibrarySpec, config.library)
    return spec.preload.get(config.device_kind)
