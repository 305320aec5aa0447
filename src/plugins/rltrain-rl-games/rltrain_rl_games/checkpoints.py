"""rl_games' checkpoints: read to a rank's own device; equal states are written as equal bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["load_checkpoint", "on_host", "save_checkpoint"]


def load_checkpoint(path: str, device: str) -> dict[str, Any]:
    """Load a checkpoint to a rank's own device.

    rl_games' own loader puts every rank's copy on the device that wrote it. Like it, this takes off
    the prefix that torch.compile adds to names, also where rl_games leaves it.
    """
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=False)
    for key in ("model", "assymetric_vf_nets"):
        if key in state:
            state[key] = {
                name.replace("_orig_mod.", ""): tensor for name, tensor in state[key].items()
            }
    return state


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint whose bytes say nothing of where its parts came from.

    pickle writes an object once that stands in two places, and twice two that are equal; which of
    them they are depends on whether they were loaded.
    """
    torch.save(_apart(state), path)


def on_host(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's values in numpy; torch's own pickles differ from process to process."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy())


def _apart(part: Any) -> Any:
    """Return a copy in which equal strings are one object, and containers stand in one place."""
    if isinstance(part, str):
        return sys.intern(part)
    if isinstance(part, (list, tuple)):
        return type(part)([_apart(item) for item in part])
    if not isinstance(part, dict):
        return part
    items = {_apart(key): _apart(value) for key, value in part.items()}
    if not isinstance(part, OrderedDict):
        return items
    copy = OrderedDict(items)
    if hasattr(part, "_metadata"):  # By which torch knows the versions of modules.
        copy._metadata = _apart(part._metadata)  # type: ignore[attr-defined]
    return copy
