"""The checkpoints of a run: they are saved, listed, and the older ones removed."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.data import parse_json
from rltrain.errors import UsageError
from rltrain.files.reading import changed_at, read_bytes
from rltrain.storage.checkpoint import Checkpoint, name_of_state, states_of, write_state
from rltrain.storage.run_folder import RunFolder

INDEX = "checkpoints.json"
"""In the run folder: the checkpoints in the order in which they were saved."""

_LARGEST_INDEX = 64 << 20
"""In bytes; some 500,000 checkpoints."""


def save_with_state(
    folder: RunFolder,
    name: str,
    save: Callable[[Path], Any],
    state: Mapping[str, Any],
    keep: int | None = None,
) -> Path:
    """Write a checkpoint and the ranks' state that belongs to it, and return its path. Rank 0 only.

    The state goes to `checkpoints/ranks/`, under a name that contains the checkpoint's digest, and
    has its own: damage to either is noticed. It is written first, so that a checkpoint never lacks
    its state; one of the same name keeps its own state until it is replaced.

    Its "ranks" are the parts of all ranks, packed; the index gets its "iteration" and
    "episode_return". Of all checkpoints of the run, `keep` are kept, and the best one.
    """

    def write(partial: Path) -> None:
        save(partial)
        written.append(name_of_state(name, partial))
        folder.write_atomically(
            f"checkpoints/ranks/{written[0]}", lambda path: write_state(path, shared, parts)
        )

    shared = dict(state)
    parts = shared.pop("ranks")
    written: list[str] = []
    path = folder.write_atomically(f"checkpoints/{name}", write)
    for outdated in states_of(path):
        if outdated.name not in written:
            outdated.unlink()
    before = saved_checkpoints(folder.path, lambda text: None)
    entries = [one for one in before if one["name"] != name] + [_entry(name, state)]
    kept = _kept(entries, keep)
    text = json.dumps(kept, indent=1) + "\n"
    folder.write_atomically(INDEX, lambda path: path.write_text(text))
    for entry in entries:
        if entry not in kept:
            _remove(folder.checkpoints / entry["name"])
    return path


def _kept(entries: list[dict[str, Any]], keep: int | None) -> list[dict[str, Any]]:
    """Return the newest of these checkpoints, and the one with the highest mean return."""
    if keep is None or len(entries) <= keep:
        return entries
    best = by_return(entries)[-1:]
    return [entry for entry in entries if entry in entries[-keep:] or entry in best]


def by_return(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the checkpoints whose return is known, the best one last."""
    rated = [entry for entry in entries if entry["episode_return"] is not None]
    return sorted(rated, key=lambda entry: float(entry["episode_return"]))


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint; its states last, so that it never lacks one."""
    states = list(states_of(checkpoint))
    checkpoint.unlink(missing_ok=True)
    for state in states:
        state.unlink()


def saved_checkpoints(run: Path, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return name, iteration and mean return of a run's checkpoints, in the order of saving."""
    try:
        return _index(run)
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError):
        warn(f"{run / INDEX} is damaged: ordering the checkpoints next to it by time.")
    files = [path for path in (run / "checkpoints").glob("*") if path.is_file()]
    entries = []
    for path in sorted(files, key=changed_at):
        with contextlib.suppress(UsageError):
            entries.append(_entry(path.name, Checkpoint(path).state or {}))
    return entries


def _index(run: Path) -> list[dict[str, Any]]:
    try:
        entries = parse_json(read_bytes(run / INDEX, _LARGEST_INDEX, run))
    except FileNotFoundError:
        return []
    for name in (entry["name"] for entry in entries):
        if os.path.basename(name) != name or name in ("", ".", "..") or "\0" in name:
            raise ValueError("a name that leads elsewhere")
    return [_entry(entry["name"], entry) for entry in entries]


def _entry(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    mean = state.get("episode_return")
    # NaN is neither more nor less than another one.
    mean = float(mean) if mean is not None and math.isfinite(mean) else None
    return {"name": name, "iteration": state.get("iteration"), "episode_return": mean}
