"""Finds what scripts of Isaac Lab and mjlab have trained, by its run folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.policies import Trained, find_trained
from rltrain.runs import read_text, real

_ABOUT = "run.json"
"""Where Isaac Lab 3 names library and task, in its run folder."""
_LARGEST = 1 << 20
"""Bytes of that file that are read."""

_CHECKPOINTS = ("model_*.pt", "nn/*.pth", "checkpoints/*.pt")
"""Those of rsl_rl, rl_games and skrl, seen from a run folder."""


def find(named: str, choice: str | None, given: Mapping[str, Any]) -> Trained:
    """Return what `rltrain.policies.find_trained` does, of such run folders too."""
    path = real(named)
    if os.path.isdir(path) and not (path / "config.yaml").is_file():
        found = _checkpoint(path, choice)
        path, choice = (found, None) if found else (path, choice)
    if not os.path.isfile(path):
        return find_trained(named, choice, given)
    about = _about(path.parent) or _about(path.parent.parent)
    own = {name: value for name, value in given.items() if value is not None}
    return find_trained(str(path), choice, about | own)


def _about(folder: Path) -> dict[str, Any]:
    """Return library and task of a run folder; nothing if it does not say them as words."""
    try:
        read = json.loads(read_text(folder / _ABOUT, _LARGEST, folder))
        found = {name: read[name] for name in ("library", "task")}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return found if all(isinstance(x, str) and ":" not in x for x in found.values()) else {}


def _checkpoint(folder: Path, choice: str | None) -> Path | None:
    """Return the newest checkpoint in a run folder, or that with a number; None without any."""
    files = [path for pattern in _CHECKPOINTS for path in folder.glob(pattern)]
    chosen = [x for x in files if choice in (None, "latest", *x.stem.split("_"))]
    if files and not chosen:
        raise UsageError(f"--checkpoint {choice}: {folder} has no such one. Name the file as RUN.")
    return max(chosen, key=os.path.getmtime, default=None)
