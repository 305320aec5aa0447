"""Whether this process has begun to meet the others of its run, who then hear of its failures."""

from __future__ import annotations

__all__ = ["begin_meeting", "meetings"]

_begun = 0


def begin_meeting() -> None:
    """Note that this process begins to meet the others of a run, or has met them.

    Until then they are told why it does not start: see `rltrain.specs.LauncherSpec.refuse`.
    """
    global _begun
    _begun += 1


def meetings() -> int:
    """Return how many meetings this process has begun."""
    return _begun
