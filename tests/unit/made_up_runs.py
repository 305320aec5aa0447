"""Run folders as a run writes them, with made-up numbers."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path

from rltrain.plan.resolve import make_plan
from rltrain.records import Media, RunEnded, RunStarted, Scalars, Warned
from rltrain.storage.checkpoint import save_with_state
from rltrain.storage.manifest import write_config
from rltrain.storage.metrics_file import MetricsFile
from rltrain.storage.run_folder import RunFolder, create_run_folder
from rltrain.testing import make_config
from rltrain.types import World

SECONDS = 0.5
"""Of an iteration on one rank."""


def made_state(iteration: int = 1, episode_return: float | None = None, **more) -> dict:
    return {
        "iteration": iteration,
        "episode_return": episode_return,
        "circumstances": {},
        "progress": {"iteration": iteration, "frames": 0, "window": []},
        "ranks": [],
        **more,
    }


def begun_run(*iterations: int, **options) -> Path:
    """Return the folder of a run as if it had been started, and had saved these checkpoints."""
    config = make_plan(options, {}).config
    folder = create_run_folder(config.log_root, config.library, config.task, config.run_name)
    folder.write_manifest({"config": dict(vars(config)), "folder": os.getcwd()})
    write_config(folder, config)
    for iteration in iterations:
        state = made_state(iteration, 1.0, circumstances={"algorithm": config.algorithm})
        save_with_state(folder, f"{iteration}.txt", lambda path: path.write_text("stub"), state)
    return folder.path


def make_run(
    path: Path,
    *,
    ranks: int = 2,
    seed: int = 1,
    iterations: int = 12,
    slow: int | None = None,
    ended: bool = True,
    error: str | None = None,
    solved: bool = False,
    media: tuple[tuple[str, bytes], ...] = (),
    warning: str | None = None,
    value: str | None = "losses/a_loss",
    success: bool = False,
    **config,
) -> Path:
    """Write a run folder; `slow` is a rank that takes twice as long for its rollout."""
    made = make_config(**{"library": "rl_games", "seed": seed, "check_interval": 5, **config})
    world = World(world_size=ranks, num_nodes=made.nnodes)
    path.mkdir(parents=True, exist_ok=True)
    file = MetricsFile(path)
    file.write(
        RunStarted(
            *(str(path), made.library, made.algorithm, made.task, world, made.num_envs, seed),
            config=dataclasses.asdict(made),
        )
    )
    times = [_seconds(rank, ranks, slow) for rank in range(ranks)]
    whole = sum(map(sum, times)) / ranks
    for iteration in range(1, iterations + 1):
        a_rank = made.num_envs * 32
        file.write(
            Scalars(
                iteration=iteration,
                values=_values(value, iteration, seed),
                iterations=iterations,
                frames=a_rank * ranks * iteration,
                seconds=whole * iteration,
                fps=(a_rank / whole,) * ranks,
                episode_return=None if iteration == 1 else 10.0 * iteration + seed,
                episode_length=None if iteration == 1 else 20.0 * iteration,
                success_rate=iteration / iterations if success else None,
                **dict(
                    zip(("rollout", "update", "collectives"), zip(*times, strict=True), strict=True)
                ),
            )
        )
    for name, content in media:
        (path / "videos").mkdir(parents=True, exist_ok=True)
        (path / "videos" / name).write_bytes(content)
        file.write(Media(str(path / "videos" / name), Path(name).stem, 2))
    if warning is not None:
        file.write(Warned(warning, 3))
    if ended:
        frames = made.num_envs * 32 * ranks * iterations
        file.write(RunEnded(iterations, frames, whole * iterations, 10.0, solved, error))
    manifest = {"command": "rltrain --seed N", "host": "a-host", "versions": {"python": "3.11.9"}}
    RunFolder(path).write_manifest({**manifest, "config": dataclasses.asdict(made)})
    return path


def _values(name: str | None, iteration: int, seed: int) -> dict[str, float]:
    if name is None:
        return {}
    return {name: math.exp(-iteration) + seed, "info/lr": 3e-4, "time/update": 0.1}


def _seconds(rank: int, ranks: int, slow: int | None) -> tuple[float, float, float]:
    rollout = 0.2 * (2 if rank == slow else 1)
    waiting = 0.2 if slow is not None and rank != slow else 0.0
    communication = 0.1 * math.log2(ranks)
    return rollout, SECONDS - 0.2, waiting + communication
