"""Work of ranks: of those that a launcher starts for it, or of this process, which is one.

Ranks that were started import this module.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rltrain.config import Placement, RunConfig
from rltrain.plugins.manager import RunPlugins
from rltrain.plugins.registry import Registry
from rltrain.ranks.guarded import end_in_time
from rltrain.ranks.logs import RankLog
from rltrain.ranks.notes import Notes
from rltrain.specs import LauncherSpec
from rltrain.storage.checkpoint import Checkpoint
from rltrain.types import Launcher, TrainResult, World

T = TypeVar("T")
ConfigT = TypeVar("ConfigT", bound=Placement)


def carry_out(
    work: Callable[[ConfigT, World, RankLog], T],
    placement: ConfigT,
    world: World | None,
    registry: Registry,
) -> T:
    """Do work as the rank that this process is, if it has a place; else on ranks that are started.

    The work can be pickled.
    """
    if world is not None:
        from rltrain.run.worker import run_here  # Where ranks are started, it is not needed.

        return run_here(placement, world, work)
    # Launchers ask for the work's name, as functions have one.
    launched: Any = functools.update_wrapper(
        functools.partial(_as_launched, work=work), _as_launched
    )
    launcher: Any = launcher_of(placement, registry)
    found: T = launcher.launch(placement, launched)
    return found


def launcher_of(placement: Placement, registry: Registry) -> Launcher:
    """Return the launcher that was chosen."""
    name = placement.launcher
    assert name is not None, "a run whose ranks have not been started has a launcher"
    launcher: Launcher = RunPlugins().choose(registry.get(LauncherSpec, name), placement.plugins)
    return launcher


def _as_launched(
    config: ConfigT, report_dir: str, work: Callable[[ConfigT, World, RankLog], T]
) -> T | None:
    """Do work as one of the ranks that were started; see `rltrain.run.worker.run_launched`."""
    from rltrain.run.worker import run_launched

    result = run_launched(config, report_dir, work)
    end_in_time(0)
    return result


def train(
    config: RunConfig,
    world: World,
    log: RankLog,
    notes: Sequence[Notes] = (),
    max_restarts: int | None = None,
    found: Checkpoint | None = None,
) -> TrainResult:
    """Train: the work of a run. `found` is its checkpoint, if this process has found it."""
    from rltrain.run.worker import run_rank

    if max_restarts is not None:
        config = dataclasses.replace(config, max_restarts=max_restarts)
    if log.has_launcher:
        notes = (Notes(log.path.parent), *notes)
    return run_rank(config, world, log, notes, found)
