"""Telling skrl's checkpoints from others', before any rank starts."""

from __future__ import annotations

from rltrain_torch.checkpoints import top_level_keys

__all__ = ["AGENT", "parts"]

AGENT = "an agent of skrl"
"""Among the parts of every checkpoint of skrl, whichever of its agents wrote it."""

_ACTS = {"policy", "q_network"}


def parts(path: str) -> list[str] | str:
    """Return the parts of a checkpoint, `AGENT` among them if skrl wrote it, or why it is none.

    Agents name their parts differently: all have a network that acts, and an optimiser.
    """
    names = top_level_keys(path)
    if isinstance(names, str):
        return names
    acts = not _ACTS.isdisjoint(names)
    return [*names, AGENT] if acts and any(n.endswith("optimizer") for n in names) else names
