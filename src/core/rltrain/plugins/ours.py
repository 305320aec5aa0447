"""What our own plugins provide that is not installed with the core: each says how to install it."""

from __future__ import annotations

__all__ = ["COMMANDS", "how_to_install"]

COMMANDS = {
    "doctor": "rltrain-doctor",
    "new": "rltrain-devkit",
    **dict.fromkeys(("play", "evaluate", "export"), "rltrain-play"),
    **dict.fromkeys(("report", "scale"), "rltrain-report"),
}
"""The distribution of each command, in the order in which commands are listed."""

_OURS = {"command": COMMANDS, "observer": {"video": "rltrain-play"}}


def how_to_install(kind: str, name: str) -> str | None:
    """Return how to install what one of our plugins provides; None if none does."""
    plugin = _OURS.get(kind, {}).get(name)
    return plugin and (
        f"{name}: is {'an' if kind[0] in 'aeiou' else 'a'} {kind} of {plugin}. pip install "
        f"'{plugin}[library]' (`make wheels` in rltrain's clone lets pip find it)."
    )
