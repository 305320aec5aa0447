"""Checkpoints: the library's own file, and beside it each rank's state, for an exact resume."""

from __future__ import annotations

import glob
import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain.storage.run_folder import RunFolder, task_folder

if TYPE_CHECKING:
    from rltrain.config import RunConfig

__all__ = ["CHOICES", "find_checkpoint", "latest_of_name", "read_state", "save_with_state"]

CHOICES = ("latest", "best")
"""What `--checkpoint` accepts besides a path."""

_INDEX = "checkpoints.json"
"""In the run folder: the checkpoints in the order in which they were saved."""


def save_with_state(
    folder: RunFolder, name: str, save: Callable[[Path], Any], state: Mapping[str, Any]
) -> Path:
    """Write a checkpoint and the ranks' state that belongs to it. Rank 0 only.

    The state goes to `checkpoints/ranks/`, under a name that contains the checkpoint's digest. It
    is written before the checkpoint, so that a checkpoint never lacks its state. A checkpoint of
    the same name keeps its own state until it is replaced.

    Args:
        folder: the run folder.
        name: file name in the run folder's `checkpoints`.
        save: writes the library's file to the path that it is given.
        state: what `read_state` will return. Its "iteration" and "episode_return" also go to the
            index.

    Returns:
        The path of the library's file.
    """

    def write(partial: Path) -> None:
        save(partial)
        written.append(_state_name(name, _digest(partial)))
        relative = f"checkpoints/ranks/{written[0]}"
        folder.write_atomically(relative, lambda path: path.write_bytes(pickle.dumps(state)))

    written: list[str] = []
    path = folder.write_atomically(f"checkpoints/{name}", write)
    for outdated in (path.parent / "ranks").glob(_state_name(glob.escape(name), "*")):
        if outdated.name not in written:
            outdated.unlink()
    entry = {"name": name, **{key: state[key] for key in ("iteration", "episode_return")}}
    entries = [one for one in _index(folder.path) if one["name"] != name] + [entry]
    text = json.dumps(entries, indent=1) + "\n"
    folder.write_atomically(_INDEX, lambda path: path.write_text(text))
    return path


def read_state(checkpoint: Path) -> dict[str, Any] | None:
    """Return the state that was written with a checkpoint, or None if there is none.

    It unpickles the file: use it only with files that you trust, like the checkpoint itself.
    """
    path = checkpoint.parent / "ranks" / _state_name(checkpoint.name, _digest(checkpoint))
    if not path.is_file():
        return None
    state: dict[str, Any] = pickle.loads(path.read_bytes())
    return state


def find_checkpoint(choice: str, log_root: str, library: str, task: str) -> Path:
    """Return the latest or the best checkpoint of the newest run that has one.

    Args:
        choice: "latest" is the one saved last; "best" is the one with the highest mean return over
            the last episodes when it was saved.
        log_root: where the run folders are.
        library: the runs' library.
        task: the runs' task.

    Raises:
        UsageError: there is no such checkpoint.
    """
    runs = task_folder(log_root, library, task)
    for run, entries in _newest_first(runs):
        if choice == "best":
            entries = [entry for entry in entries if entry["episode_return"] is not None]
            entries.sort(key=lambda entry: float(entry["episode_return"]))
        if entries:
            return _path(run, entries[-1])
    raise UsageError(
        f"--checkpoint {choice}: no run of {library} on {task} below {runs} has saved one. Name a "
        "file, or the --log-root of the run to resume."
    )


def latest_of_name(config: RunConfig) -> str | None:
    """Return the latest checkpoint of the runs of this task and library with this run's name."""
    runs = task_folder(config.log_root, config.library, config.task)
    for run, entries in _newest_first(runs):
        if entries and _run_name(run) == config.run_name:
            return str(_path(run, entries[-1]))
    return None


def _run_name(run: Path) -> str | None:
    """Return a run's name; not from the folder's name, which may end in a number of its own."""
    try:
        name: str | None = json.loads((run / "manifest.json").read_text())["config"]["run_name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # The user has removed it.
    return name


def _newest_first(runs: Path) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Yield the run folders that have saved checkpoints, with those that are still there."""
    indices = sorted(runs.glob(f"*/{_INDEX}"), key=lambda path: path.stat().st_mtime_ns)
    for index in reversed(indices):
        run = index.parent
        yield run, [entry for entry in _index(run) if _path(run, entry).is_file()]


def _index(run: Path) -> list[dict[str, Any]]:
    path = run / _INDEX
    return list(json.loads(path.read_text())) if path.is_file() else []


def _path(run: Path, entry: Mapping[str, Any]) -> Path:
    return run / "checkpoints" / str(entry["name"])


def _state_name(name: str, digest: str) -> str:
    return f"{name}.{digest}.pkl"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
