"""Tells a checkpoint of skrl from another library's."""

from __future__ import annotations

from pathlib import Path

__all__ = ["check"]

_KEYS = {"policy", "value", "optimizer"}
"""What an agent that can go on learning has in its checkpoint."""

_OTHERS = {
    "rl_games": {"model", "optimizer", "epoch", "frame"},
    "rsl_rl": {"actor_state_dict", "critic_state_dict"},
}


def check(path: str) -> str | None:
    """Say what is wrong with a checkpoint, or None if skrl's PPO can have written it.

    It imports torch, and unpickles the file as skrl does: call it in a process of its own.
    """
    import torch

    if not Path(path).is_file():
        return f"{path}: there is no such file."
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        return f"{path}: is no checkpoint of skrl: torch cannot load it ({error})."
    keys = set(loaded) if isinstance(loaded, dict) else set()
    if keys >= _KEYS:
        return None
    for library, theirs in _OTHERS.items():
        if keys >= theirs:
            return (
                f"{path}: is no checkpoint of skrl; it looks like one of {library}: "
                f"try --library {library}."
            )
    missing = ", ".join(sorted(_KEYS - keys))
    return f"{path}: is no checkpoint of skrl's PPO: it lacks {missing}."
