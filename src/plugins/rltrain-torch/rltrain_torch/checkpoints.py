"""Reading checkpoints of libraries that write them with `torch.save`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["as_tensors", "top_level_keys"]


def top_level_keys(path: str) -> list[str] | str:
    """Return the keys of a checkpoint that is a mapping, or the reason why it cannot be read.

    It unpickles the file, as the libraries do. Use it for trusted files only.
    """
    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        reason = " ".join(str(error).split())
        return f"it cannot be read as a checkpoint ({type(error).__name__}: {reason})."
    return [str(key) for key in loaded] if isinstance(loaded, Mapping) else []


def as_tensors(state: Any, device: str) -> Any:
    """Return a rank's saved state with its numpy arrays as tensors on the rank's device.

    Version 0.1 saved arrays. Since then adapters save tensors, which need no conversion.

    Args:
        state: nested dicts, lists and tuples.
        device: the rank's device.
    """
    import numpy as np
    import torch

    if isinstance(state, np.ndarray):
        return torch.tensor(state, device=device)
    if isinstance(state, dict):
        return {name: as_tensors(item, device) for name, item in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(as_tensors(item, device) for item in state)
    return state
