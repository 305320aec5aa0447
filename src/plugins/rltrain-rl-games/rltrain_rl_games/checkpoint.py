"""Whether a file is a checkpoint of rl_games."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["check", "load"]

_KEYS = {"model", "optimizer", "epoch", "frame"}
_OTHERS = {"rsl_rl": {"actor_state_dict"}, "skrl": {"policy", "optimizer"}}


def check(path: str) -> str | None:
    """Return what is wrong with a checkpoint, or None."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        return f"cannot be read as a checkpoint ({type(error).__name__}: {error})."
    keys = set(loaded) if isinstance(loaded, dict) else set()
    if keys >= _KEYS:
        return None
    other = next((name for name, found in _OTHERS.items() if keys >= found), None)
    if other:
        return f"is not a checkpoint of rl_games; it looks like one of {other}."
    return f"is not a checkpoint of rl_games, which holds {', '.join(sorted(_KEYS))}."


def load(path: str, device: str) -> dict[str, Any]:
    """Load a checkpoint to a rank's own device.

    rl_games' own loader puts every rank's copy on the device that wrote it. Like it, this takes off
    the prefix that torch.compile adds to names.
    """
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=False)
    state["model"] = {
        name.removeprefix("_orig_mod."): tensor for name, tensor in state["model"].items()
    }
    return state
