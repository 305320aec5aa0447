"""Says what is wrong with a checkpoint before any rank starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

__all__ = ["check"]

NEEDED = frozenset({"actor_state_dict", "critic_state_dict", "optimizer_state_dict", "iter"})

OTHERS = (
    ({"student_state_dict", "teacher_state_dict"}, "rsl_rl's Distillation"),
    ({"model_state_dict", "optimizer_state_dict"}, "rsl_rl before 4.0"),
    ({"model", "optimizer", "epoch", "frame"}, "rl_games"),
    ({"policy", "optimizer"}, "skrl"),
)
"""Keys by which checkpoints of other origins are known."""


def check(path: str | Path) -> str | None:
    """Return what is wrong with a checkpoint of PPO, or None.

    It unpickles the file, as rsl_rl does: only for files that are trusted.
    """
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        reason = " ".join(str(error).split())
        return f"It cannot be read ({type(error).__name__}: {reason})."
    keys = set(loaded) if isinstance(loaded, Mapping) else set()
    missing = sorted(NEEDED - keys)
    if not missing:
        return None
    origin = next((name for known, name in OTHERS if known <= keys), None)
    looks = f"; it looks like one of {origin}" if origin else ""
    return f"It is not a checkpoint of rsl_rl's PPO, which has {', '.join(missing)}{looks}."
