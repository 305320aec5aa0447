"""What a plugin implements to send runs to a tracker, and what trackers show of a run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rltrain.data import parse_json
from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted, Scalars
from rltrain.runs import INDEX, read_text, states_of

CHECKPOINTS = ("none", "last", "best", "all")
"""Which checkpoints a tracker is given; `last` and `best` when the run ends."""
_LARGEST = 1 << 20
"""Bytes of what a tracker has remembered that are read."""


class Refused(Exception):
    """The tracker will never take this, so it is left out. Any other error is tried again."""


@dataclass(frozen=True)
class Row:
    """The metrics of one iteration."""

    frames: int
    """Environment steps so far, over all environments and ranks: the x axis."""
    time: float
    """When they were recorded, in seconds since 1970."""
    metrics: dict[str, float]
    """By name; values may be NaN or infinite."""


class Tracker(Protocol):
    """A client of a tracker. A thread calls it, so calls may block.

    A call that raises is made again later, with the same arguments.
    """

    def connect(self, started: RunStarted) -> str | None:
        """Begin the tracker's run, or continue one; return a warning for the user. Called first."""

    def log(self, rows: Sequence[Row]) -> None:
        """Send metrics, in order; raise `Refused` if the tracker will never take them."""

    def log_media(self, media: Media, frames: int) -> None:
        """Send an image, video or audio file."""

    def log_checkpoint(self, saved: CheckpointSaved, frames: int) -> None:
        """Send a checkpoint; see `checkpoint_files`."""

    def finish(self, ended: RunEnded) -> str | None:
        """End the tracker's run (see `outcome`); return a warning for the user. Called last."""


def check_options(checkpoints: str, finish_timeout: float) -> None:
    """Raise `ValueError` if one of the options that trackers have in common is wrong."""
    if checkpoints not in CHECKPOINTS:
        raise ValueError(f"checkpoints={checkpoints} is none of these: {', '.join(CHECKPOINTS)}.")
    if not finish_timeout > 0:
        raise ValueError(f"finish_timeout={finish_timeout} must be greater than 0.")


def config_of(started: RunStarted) -> dict[str, Any]:
    """Return the resolved run, without secrets, and where its ranks are."""
    world = started.world
    place = {"world_size": world.world_size, "num_nodes": world.num_nodes}
    return {**started.config, **place, "run_dir": started.run_dir}


def metrics_of(scalars: Scalars) -> dict[str, float]:
    """Return one iteration's metrics by name.

    The library's metrics keep their names. Those for episodes and speed are the same for every
    library. `iteration` is one of them, so that frames (the x axis) can be converted to iterations.
    """
    found = dict(scalars.values)
    of_episodes = {
        "episode/return": scalars.episode_return,
        "episode/length": scalars.episode_length,
        "episode/success": scalars.success_rate,
    }
    found |= {name: value for name, value in of_episodes.items() if value is not None}
    if scalars.fps:
        found["performance/fps"] = sum(scalars.fps)
        found["performance/fps_rank_min"] = min(scalars.fps)
        found["performance/fps_rank_max"] = max(scalars.fps)
    if scalars.collectives:
        found["performance/waiting_share"] = scalars.waiting_share
    found["iteration"] = scalars.iteration
    return {name: float(value) for name, value in found.items()}


def outcome(ended: RunEnded) -> str:
    """Return how a run ended: "finished", "solved", "stopped" (it was asked to) or "failed"."""
    return "stopped" if ended.outcome == "interrupted" else ended.outcome


def checkpoint_files(checkpoint: Path) -> dict[str, Path]:
    """Return what makes a run folder of one checkpoint: files by their path in that folder.

    Downloaded together, they can be given to `--resume`.
    """
    run = checkpoint.parent.parent
    options = (run / name for name in ("config.yaml", "agent.yaml", "manifest.json", INDEX))
    files = [checkpoint, *states_of(checkpoint), *(path for path in options if path.is_file())]
    return {str(path.relative_to(run)): path for path in files}


def remembered(started: RunStarted, tracker: str, resume: bool = True) -> Mapping[str, Any]:
    """Return what a tracker has remembered of a run that continues; nothing for a new run.

    A run continues in its own folder if its ranks were started again; and in a new one if it has
    loaded a checkpoint with its frames, as `--resume` does, unless `resume` is false.
    """
    folders = [Path(started.run_dir)]
    checkpoint = started.config.get("checkpoint")
    if resume and checkpoint and started.frames:
        folders.append(Path(checkpoint).parent.parent)
    for folder in folders:
        with contextlib.suppress(OSError, ValueError):
            found = parse_json(read_text(folder / f"{tracker}.json", _LARGEST, folder))
            if isinstance(found, dict):
                return found
    return {}


def remember(started: RunStarted, tracker: str, values: Mapping[str, Any]) -> None:
    """Remember something, such as the id of the tracker's run, in the run folder."""
    with contextlib.suppress(OSError):  # A full disk: a run that continues is a new one there.
        Path(started.run_dir, f"{tracker}.json").write_text(json.dumps(values) + "\n")
