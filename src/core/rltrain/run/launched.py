"""What launchers start on each rank: it imports what a rank needs there, not where it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Train as one of the ranks that rltrain's launcher started; see `rltrain.run.worker.work`."""
    from rltrain.run.worker import work

    return work(config, report_dir, notes, max_restarts)


def do(
    config: ConfigT, report_dir: str, run: Callable[[ConfigT, World, RankLog], T | None]
) -> T | None:
    """Do other work as one of them; see `rltrain.run.worker.run_launched`."""
    from rltrain.run.worker import run_launched

    return run_launched(config, report_dir, run)
