"""Records of a run, as a console is sent them."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from rltrain.builtin.console import ConsoleWriter
from rltrain.records import CheckpointSaved, Record, RunEnded, RunStarted, Scalars
from rltrain.types import World

RUN_DIR = str(Path("logs/rl_games/Task-v1/2025-01-01_00-00-00").resolve())
SAVED = CheckpointSaved(RUN_DIR + "/checkpoints/ep_1.pth", 1)


def started(ranks: int = 2, device: str = "cuda:0", nodes: int = 1) -> RunStarted:
    world = World(world_size=ranks, num_nodes=nodes, device=device)
    return RunStarted(RUN_DIR, "rl_games", "ppo", "suite/Task-v1", world, 8, seed=42)


def scalars(iteration: int, seconds: float, **more: object) -> Scalars:
    frames, fps = 16384 * iteration, (20500.0, 20700.0)
    record = Scalars(iteration, {}, 100, frames, seconds, fps, 187.31, 190.0)
    times = {"rollout": (0.5, 0.25), "update": (0.25, 0.25), "collectives": (0.25, 0.5)}
    return dataclasses.replace(record, **{**times, **more})  # type: ignore[arg-type]


def ended(iterations: int, solved: bool = False, error: str | None = None) -> RunEnded:
    return RunEnded(iterations, 16384 * iterations, 21.0, 187.31, solved=solved, error=error)


def write_records(writer: ConsoleWriter, *records: Record) -> None:
    for record in records:
        writer.rltrain_write(record)
    writer.rltrain_shutdown()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
