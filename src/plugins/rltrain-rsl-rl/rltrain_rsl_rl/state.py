"""What rsl_rl keeps from one iteration to the next and does not save, on the host and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

__all__ = ["on_device", "on_host"]


def on_host(value: Any) -> Any:
    """Return a copy of nested dicts, lists and tuples in which tensors are numpy arrays.

    Arrays, because pickled tensors hold the addresses of their storages: the same state would be
    other bytes.
    """
    return _each(value, torch.Tensor, lambda tensor: tensor.detach().cpu().numpy().copy())


def on_device(value: Any, device: str) -> Any:
    """Return a copy of what `on_host` returned, in which arrays are tensors on a device."""
    return _each(value, np.ndarray, lambda array: torch.tensor(array, device=device))


def _each(value: Any, kind: type, converted: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return converted(value)
    if isinstance(value, dict):
        return {name: _each(item, kind, converted) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_each(item, kind, converted) for item in value)
    return value
