"""Telling skrl's checkpoints from others', before any rank starts."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

__all__ = ["AGENT", "parts"]

AGENT = "an agent of skrl"
"""Among the parts of every checkpoint of skrl, whichever of its agents wrote it."""

_ACTS = {"policy", "q_network"}

_PICKLE = b"\x80\x04"
"""How a checkpoint of skrl's jax agents begins: pickle, protocol 4. torch writes archives, and once
wrote protocol 2."""


def parts(path: str) -> list[str] | str:
    """Return the parts of a checkpoint, `AGENT` among them if skrl wrote it, or why it is none.

    Agents name their parts differently: all have a network that acts, and an optimiser.
    """
    names = _top_level_keys(path)
    if isinstance(names, str):
        return names
    acts = not _ACTS.isdisjoint(names)
    return [*names, AGENT] if acts and any(n.endswith("optimizer") for n in names) else names


def _top_level_keys(path: str) -> list[str] | str:
    try:
        with Path(path).open("rb") as file:
            pickled = file.read(len(_PICKLE)) == _PICKLE
    except OSError as error:
        return f"it cannot be read: {error}."
    if not pickled:
        from rltrain_torch.checkpoints import top_level_keys

        return top_level_keys(path)
    try:
        loaded = pickle.loads(Path(path).read_bytes())
    except Exception as error:
        return f"it cannot be read as a checkpoint ({type(error).__name__}: {error})."
    return [str(key) for key in loaded] if isinstance(loaded, Mapping) else []
