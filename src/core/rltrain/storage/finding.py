"""Finding the checkpoint to go on from: the latest or best one that is not damaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.storage.checkpoints import INDEX, DamagedCheckpoint, read_state, saved_checkpoints
from rltrain.storage.manifest import read_manifest
from rltrain.storage.run_folder import task_folder
from rltrain_files.reading import changed_at, no_file, real

if TYPE_CHECKING:
    from rltrain.config import RunConfig

__all__ = [
    "CHOICES",
    "all_checkpoints",
    "checkpoint_of_run",
    "checkpoint_path",
    "find_checkpoint",
    "latest_of_name",
    "newest_of_run",
    "newest_run",
]

CHOICES = ("latest", "best")
"""What `--checkpoint` accepts besides a path."""


def find_checkpoint(
    choice: str, log_root: str, library: str, task: str, warn: Callable[[str], None]
) -> Path:
    """Return the latest or the best checkpoint of the newest run that has one.

    Args:
        choice: "latest" is the one saved last; "best" is the one with the highest mean return over
            the last episodes when it was saved.
        log_root: where the run folders are.
        library: the runs' library.
        task: the runs' task.
        warn: takes a message for each damaged checkpoint that is passed over.

    Raises:
        UsageError: there is no such checkpoint.
    """
    runs = task_folder(log_root, library, task)
    for run in _newest_first(runs):
        entries = saved_checkpoints(run, warn)
        found = _last_sound(run, _worst_first(entries) if choice == "best" else entries, warn)
        if found is not None:
            return found
    raise UsageError(
        f"--checkpoint {choice}: no run of {library} on {task} below {runs} has saved one. Name a "
        "file, or the --log-root of the run to resume."
    )


def latest_of_name(config: RunConfig, warn: Callable[[str], None]) -> str | None:
    """Return the latest checkpoint of the runs of this task and library with this run's name.

    Args:
        config: names the task, the library and the run.
        warn: takes a message for each damaged checkpoint that is passed over.
    """
    runs = task_folder(config.log_root, config.library, config.task)
    for run in _newest_first(runs):
        if _run_name(run) == config.run_name:
            found = _last_sound(run, saved_checkpoints(run, warn), warn)
            if found is not None:
                return str(found)
    return None


def newest_of_run(
    run: Path, warn: Callable[[str], None], trusted: bool = False
) -> tuple[Path, int] | None:
    """Return a run's newest checkpoint, and the iteration after which it was saved.

    Args:
        run: the run folder.
        warn: takes a message for each checkpoint that is passed over.
        trusted: whether to follow links out of the run folder.
    """
    entries = saved_checkpoints(run, warn)
    found = _last_sound(run, entries, warn, trusted)
    if found is None:
        return None
    return found, next(int(one["iteration"] or 0) for one in entries if one["name"] == found.name)


def checkpoint_of_run(
    run: Path, choice: str, warn: Callable[[str], None], trusted: bool = False
) -> Path:
    """Return one of a run's checkpoints.

    Args:
        run: the run folder.
        choice: "latest", "best", or the iteration after which it was saved.
        warn: takes a message for each checkpoint that is passed over.
        trusted: whether to follow links out of the run folder.

    Raises:
        UsageError: the run has not saved it.
    """
    entries = saved_checkpoints(run, warn)
    chosen = entries
    if choice == "best":
        chosen = _worst_first(entries)
    elif choice != "latest":
        chosen = [entry for entry in entries if str(entry["iteration"]) == choice]
    found = _last_sound(run, chosen, warn, trusted)
    if found is None:
        saved = ", ".join(str(entry["iteration"]) for entry in entries)
        there = f"It has those of the iterations {saved}." if saved else "It has saved none yet."
        raise UsageError(f"--checkpoint {choice}: the run {run} has no such checkpoint. {there}")
    return found


def all_checkpoints(run: Path, warn: Callable[[str], None], trusted: bool = False) -> list[Path]:
    """Return a run's checkpoints that are still there, in the order of saving.

    Args:
        run: the run folder.
        warn: takes a message for each checkpoint that is passed over.
        trusted: whether to follow links out of the run folder.
    """
    paths = (checkpoint_path(run, str(e["name"]), trusted) for e in saved_checkpoints(run, warn))
    return [path for path in paths if path is not None and path.is_file()]


def newest_run(word: str, given: Mapping[str, Any]) -> Path:
    """Return the newest run folder that has a checkpoint.

    Args:
        word: what the user has typed for it.
        given: the user's options; `log_root`, `library` and `task` say which runs are meant.

    Raises:
        UsageError: there is none.
    """
    log_root, library, task = given.get("log_root"), given.get("library"), given.get("task")
    log_root = log_root or RunOptions.log_root
    runs = [
        run
        for folder in real(log_root).glob(f"{library or '*'}/*")
        for run in _newest_first(folder)[:1]
        if task is None or folder == task_folder(log_root, folder.parent.name, task)
    ]
    if not runs:
        raise UsageError(
            f"{word}: no such run below {log_root} has saved a checkpoint. Name a run folder, or "
            "the --log-root of the run."
        )
    return max(runs, key=lambda run: changed_at(run / INDEX))


def _run_name(run: Path) -> str | None:
    """Return a run's name; not from the folder's name, which may end in a number of its own."""
    manifest = read_manifest(run)  # None if the user has removed it.
    name = manifest["config"].get("run_name") if manifest else None
    return name if isinstance(name, str) else None


def _newest_first(runs: Path) -> list[Path]:
    """Return the run folders that have saved checkpoints."""
    indices = sorted(runs.glob(f"*/{INDEX}"), key=changed_at)
    return [index.parent for index in reversed(indices)]


def checkpoint_path(run: Path, name: str, trusted: bool = False) -> Path | None:
    """Return the path of a checkpoint that a run's index names; None if it leads elsewhere.

    Args:
        run: the run folder.
        name: in its index.
        trusted: whether to follow links out of the run folder.
    """
    path = run / "checkpoints" / name
    inside = path.name == name and (trusted or real(path).is_relative_to(real(run)))
    return path if inside else None


def _worst_first(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the checkpoints whose return is known, the best one last."""
    rated = [entry for entry in entries if entry["episode_return"] is not None]
    return sorted(rated, key=lambda entry: float(entry["episode_return"]))


def _last_sound(
    run: Path,
    entries: Sequence[Mapping[str, Any]],
    warn: Callable[[str], None],
    trusted: bool = False,
) -> Path | None:
    """Return the last of these checkpoints that is there and not damaged."""
    for entry in reversed(entries):
        path = checkpoint_path(run, str(entry["name"]), trusted)
        if path is None:
            warn(
                f"passing over {entry['name']!a}: it leads out of {run / 'checkpoints'}. If it is "
                "yours, or you trust who wrote it, add --trust-run."
            )
            continue
        if not path.is_file():
            warn(f"passing over {path}: it {no_file(path, 'was renamed or removed')}.")
            continue
        try:
            read_state(path)
            return path
        except DamagedCheckpoint as error:
            warn(f"passing over {path}: {error.what}.")
        except UsageError:
            return path  # It names code: that is said where it is loaded.
    return None
