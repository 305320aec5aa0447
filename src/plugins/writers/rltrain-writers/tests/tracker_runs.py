"""The records of a made-up run on two ranks, and what a tracker's writer says of them."""

from __future__ import annotations

from rltrain.records import RunEnded, RunStarted, Scalars
from rltrain.types import World

ENDED = RunEnded(3, 1536, 1.0, 20.0)


def started(run_dir, **values):
    world = World(world_size=2, local_world_size=2)
    values.setdefault("config", {"task": "Task-v1", "agent": {"lr": 0.1, "units": [64, 64]}})
    return RunStarted(str(run_dir), "rl_games", "ppo", "Task-v1", world, 8, seed=7, **values)


def scalars(iteration):
    return Scalars(
        iteration, {"loss/grad (max)": 1 / iteration}, frames=512 * iteration, fps=(9.0, 8.0)
    )


def saved_files(folder):
    """Make the files of a run folder; return a checkpoint and a video."""
    checkpoint, video = folder / "checkpoints" / "2.pt", folder / "clip.mp4"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"weights")
    video.write_bytes(b"video")
    (folder / "config.yaml").write_text("task: Task-v1\n")
    return str(checkpoint), str(video)


def said(capsys, tracker):
    """Return what the writer has said on the console."""
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if line.startswith(f"rltrain: {tracker}")]
