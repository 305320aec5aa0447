"""Work that several ranks share, whatever it is: an evaluation, a check. For commands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from rltrain.config import RunConfig
from rltrain.launch.lifeline import with_other_nodes
from rltrain.launch.rank_log import RankLog
from rltrain.plan.resolve import Plan
from rltrain.run.start import apply_saved_variables, launcher_of
from rltrain.run.worker import run_here, run_launched
from rltrain.types import World

__all__ = ["on_ranks"]

T = TypeVar("T")


def on_ranks(plan: Plan, work: Callable[[RunConfig, World, RankLog], T | None]) -> T | None:
    """Do work on the ranks of a plan: start them, or be one that was started.

    Args:
        plan: says where, such as `rltrain.policies.plan_policy` returns.
        work: what each rank does. It can be pickled.

    Returns:
        What rank 0 returned, on its node; None elsewhere.

    Raises:
        UsageError: a rank refused the options.
        RankFailed: a rank failed.
    """
    apply_saved_variables(plan.config, plan.world)
    if plan.world is not None:
        result = run_here(plan.config, plan.world, work)
        return result if plan.world.is_root else None
    # Launchers ask for the work's name, as functions have one.
    launched: Any = functools.update_wrapper(
        functools.partial(run_launched, run=work), run_launched
    )
    with with_other_nodes(plan.config):
        found: Any = launcher_of(plan).launch(plan.config, launched)
    return found if plan.config.node_rank == 0 else None
