"""Checkpoints: the library's own file, and beside it each rank's state, for an exact resume."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import math
import os
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from rltrain.data import pack_state, unpack_state
from rltrain.errors import UsageError
from rltrain.storage.fitting import check_state, is_count, is_file_name, is_number
from rltrain.storage.run_folder import RunFolder
from rltrain.unpickling import UnsafePickle, would_run_code
from rltrain_files.reading import changed_at, digest, read_bytes

__all__ = [
    "INDEX",
    "DamagedCheckpoint",
    "read_state",
    "save_with_state",
    "saved_checkpoints",
    "states_of",
]

INDEX = "checkpoints.json"
"""In the run folder: the checkpoints in the order in which they were saved."""

_LARGEST_INDEX = 64 << 20
"""In bytes; some 500,000 checkpoints."""

_RANKS, _SUFFIX = "checkpoints/ranks/", ".state"
_LETTERS = 16
"""Of a checkpoint's digest, in the name of its state."""
_MAGIC = b"rltrain state 1\n"
"""The first bytes of a state; its digest follows."""


class DamagedCheckpoint(UsageError):
    """A checkpoint is not what was written.

    Attributes:
        what: which file is damaged.
    """

    # Only the message is needed to make one: pickle carries the rest, as for any exception.
    def __init__(self, message: str, *, what: str = "") -> None:
        super().__init__(message)
        self.what = what


def save_with_state(
    folder: RunFolder,
    name: str,
    save: Callable[[Path], Any],
    state: Mapping[str, Any],
    keep: int | None = None,
) -> Path:
    """Write a checkpoint and the ranks' state that belongs to it. Rank 0 only.

    The state goes to `checkpoints/ranks/`, under a name that contains the checkpoint's digest, and
    starts with its own: either one that is damaged is noticed. It is written before the checkpoint,
    so that a checkpoint never lacks its state. A checkpoint of the same name keeps its own state
    until it is replaced.

    Args:
        folder: the run folder.
        name: file name in the run folder's `checkpoints`.
        save: writes the library's file to the path that it is given.
        state: what `read_state` will return. Its "iteration" and "episode_return" also go to the
            index.
        keep: how many checkpoints of the run to keep, the best one besides; None for all.

    Returns:
        The path of the library's file.
    """

    def write(partial: Path) -> None:
        save(partial)
        written.append(f"{name}.{digest(partial)[:_LETTERS]}{_SUFFIX}")
        packed = pack_state(state, {})
        whole = _MAGIC + hashlib.sha256(packed).digest() + packed
        folder.write_atomically(_RANKS + written[0], lambda path: path.write_bytes(whole))

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
    rated = [entry for entry in entries if entry["episode_return"] is not None]
    rated.sort(key=lambda entry: float(entry["episode_return"]))
    return [entry for entry in entries if entry in entries[-keep:] or entry in rated[-1:]]


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint; its states last, so that it never lacks one."""
    states = list(states_of(checkpoint))
    checkpoint.unlink(missing_ok=True)
    for state in states:
        state.unlink()


def read_state(checkpoint: Path, trusted: bool = False) -> dict[str, Any] | None:
    """Return the state that was written with a checkpoint, or None if there is none.

    Args:
        checkpoint: the library's file.
        trusted: whether to build whatever the state names, which may run any code.

    Raises:
        DamagedCheckpoint: the checkpoint or its state is not what was written.
        UsageError: the state is not trusted, and names what is not known to be data only; or it has
            no digest.
    """
    states = list(states_of(checkpoint))
    if not states:
        return None
    try:
        found = digest(checkpoint, _memory())[:_LETTERS]
    except OSError as error:
        raise _damaged(checkpoint, checkpoint.name, error) from error
    path = next((path for path in states if path.suffixes[-2:-1] == [f".{found}"]), None)
    if path is None:
        raise _damaged(checkpoint, checkpoint.name)
    try:
        contents = read_bytes(path, _memory())
        if contents[:1] == pickle.PROTO and not trusted:
            raise UsageError(
                f"--checkpoint {checkpoint}: {path.name} has no digest: a version before 0.2 wrote "
                "it, or somebody else. If you trust who wrote it, add --trust-checkpoint."
            )
        state = unpack_state(_checked(contents), "cpu", {}, trusted)
        check_state(state)
    except UnsafePickle as error:
        raise UsageError(f"--checkpoint {checkpoint}: {would_run_code(error)}") from error
    except (OSError, ValueError, pickle.UnpicklingError) as error:
        raise _damaged(checkpoint, path.name, error) from error
    return cast(dict[str, Any], state)


def _memory() -> int:
    """Return this machine's memory, in bytes: more than that cannot be read."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _damaged(checkpoint: Path, name: str, error: Exception | None = None) -> DamagedCheckpoint:
    why = getattr(error, "strerror", None) or error
    what = f"{name} is not what was written" + (f" ({why})" if error else "")
    return DamagedCheckpoint(
        f"--checkpoint {checkpoint}: is damaged: {what}. Name an earlier one, or give --checkpoint "
        "latest, which passes over damaged ones.",
        what=what,
    )


def _checked(contents: bytes) -> bytes:
    """Return the packed state in a file; versions before 0.2 wrote no digest.

    Raises:
        ValueError: it does not match its digest.
    """
    if contents[:1] == pickle.PROTO:
        return contents
    head = len(_MAGIC) + hashlib.sha256().digest_size
    packed = contents[head:]
    if contents[:head] != _MAGIC + hashlib.sha256(packed).digest():
        raise ValueError("another digest")
    return packed


def states_of(checkpoint: Path) -> Iterator[Path]:
    """Yield the states that were saved under a checkpoint's name."""
    name = re.compile(re.escape(checkpoint.name) + r"\.[0-9a-f]{16}(\.pkl|\.state)")
    for path in (checkpoint.parent / "ranks").glob(f"{glob.escape(checkpoint.name)}.*"):
        if name.fullmatch(path.name):
            yield path


def saved_checkpoints(run: Path, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return name, iteration and mean return of a run's checkpoints, in the order of saving.

    Args:
        run: the run folder.
        warn: takes a message if the index is damaged.
    """
    try:
        return _index(run)
    except (OSError, ValueError, RecursionError):
        warn(f"{run / INDEX} is damaged: ordering the checkpoints beside it by time.")
    files = [path for path in (run / "checkpoints").glob("*") if path.is_file()]
    entries = []
    for path in sorted(files, key=changed_at):
        with contextlib.suppress(UsageError):
            entries.append(_entry(path.name, read_state(path) or {}))
    return entries


def _index(run: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(read_bytes(run / INDEX, _LARGEST_INDEX, run))
    except FileNotFoundError:
        return []
    if not isinstance(entries, list):
        raise ValueError("no list of checkpoints")
    for entry in entries:
        if not isinstance(entry, dict) or not is_file_name(entry.get("name")):
            raise ValueError("an entry without a file's name")
        iteration = entry.get("iteration")
        if not (
            is_number(entry.get("episode_return")) and (iteration is None or is_count(iteration))
        ):
            raise ValueError("an entry without numbers")
    return [_entry(entry["name"], entry) for entry in entries]


def _entry(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    mean = state.get("episode_return")
    # NaN is neither more nor less than another one.
    mean = float(mean) if mean is not None and math.isfinite(mean) else None
    return {"name": name, "iteration": state.get("iteration"), "episode_return": mean}
