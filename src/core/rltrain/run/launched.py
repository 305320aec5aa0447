"""What launchers start on each rank: it imports what a rank needs there, not where it starts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from rltrain.config import Placement, RunConfig
from rltrain.types import TrainResult, World
from rltrain_ranks.logs.rank_log import RankLog
from rltrain_ranks.notes import Notes

__all__ = ["do", "train"]

T = TypeVar("T")
ConfigT = TypeVar("ConfigT", bound=Placement)


def train(
    config: RunConfig, report_dir: str, notes: Sequence[Notes] = (), max_restarts: int | None = None
) -> TrainResult | None:
    """Train as one of the ranks that rltrain's launcher started; see `do`.

    Args:
        config: the resolved run.
        report_dir: see `rltrain.run.worker.run_launched`.
        notes: for who starts the launcher again.
        max_restarts: that of the run, if its launcher was given 0.
    """
    from rltrain.run.worker import run_rank

    if max_restarts is not None:
        config = dataclasses.replace(config, max_restarts=max_restarts)
    notes = (Notes(Path(report_dir)), *notes)
    return do(config, report_dir, functools.partial(run_rank, notes=notes))


def do(
    config: ConfigT, report_dir: str, run: Callable[[ConfigT, World, RankLog], T | None]
) -> T | None:
    """Do other work as one of them; see `rltrain.run.worker.run_launched`."""
    from rltrain.run.worker import run_launched

    return run_launched(config, report_dir, run)
