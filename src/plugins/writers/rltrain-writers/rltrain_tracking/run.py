"""What trackers show of a run: its configuration, metrics, files and end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.data import parse_json
from rltrain.records import RunEnded, RunStarted, Scalars
from rltrain.runs import INDEX, read_text, states_of

_LARGEST = 1 << 20
"""Bytes of what a tracker has remembered that are read."""


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
    if scalars.episode_return is not None:
        found["episode/return"] = scalars.episode_return
    if scalars.episode_length is not None:
        found["episode/length"] = scalars.episode_length
    if scalars.success_rate is not None:
        found["episode/success"] = scalars.success_rate
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
    """Return what a tracker has remembered of the run that goes on; nothing for a new run.

    A run goes on in its own folder if its ranks were started again, and in a new one if it has
    loaded a checkpoint and its frames go on, as with `--resume`.

    Args:
        started: the run.
        tracker: the name of the tracker.
        resume: whether to look in the folder of the checkpoint.
    """
    folders = [Path(started.run_dir)]
    checkpoint = started.config.get("checkpoint")
    if resume and checkpoint and started.frames:
        folders.append(Path(checkpoint).parent.parent)
    for folder in folders:
        with contextlib.suppress(OSError, ValueError):
            found = parse_json(read_text(_file(folder, tracker), _LARGEST, folder))
            if isinstance(found, dict):
                return found
    return {}


def remember(started: RunStarted, tracker: str, values: Mapping[str, Any]) -> None:
    """Remember something, such as the id of the tracker's run, in the run folder."""
    with contextlib.suppress(OSError):  # A full disk: a run that goes on is a new one there.
        _file(Path(started.run_dir), tracker).write_text(json.dumps(values) + "\n")


def _file(folder: Path, tracker: str) -> Path:
    return folder / f"{tracker}.json"
