"""rl_games' checkpoints, written so that equal states give equal bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import torch

from rltrain.errors import UsageError


def check_algorithm(state: Mapping[str, Any], keys: Set[str]) -> None:
    """Check that a checkpoint has the keys that only those of the algorithm in use have."""
    missing = sorted(keys - state.keys())
    if missing:
        raise UsageError(
            "it is of another algorithm of rl_games, or of another library: it lacks "
            f"{', '.join(missing)}. Use the algorithm that wrote it (--algorithm, or "
            "params.algo.name in the agent options)."
        )


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint whose bytes depend on its values only.

    pickle writes an object that occurs twice only once, but writes two equal objects twice. Which
    case it is depends on whether the state was loaded from a file.
    """
    torch.save(_without_shared_objects(state), path)


def _without_shared_objects(part: Any) -> Any:
    """Return a copy in which equal strings are one object and no container occurs twice."""
    if isinstance(part, str):
        return sys.intern(part)
    if isinstance(part, (list, tuple)):
        return type(part)([_without_shared_objects(item) for item in part])
    if not isinstance(part, dict):
        return part
    items = {
        _without_shared_objects(key): _without_shared_objects(value) for key, value in part.items()
    }
    if not isinstance(part, OrderedDict):
        return items
    copy = OrderedDict(items)
    if hasattr(part, "_metadata"):  # torch stores the versions of modules there.
        copy._metadata = _without_shared_objects(part._metadata)  # type: ignore[attr-defined]
    return copy
