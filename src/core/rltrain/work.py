"""Work that several ranks share, such as an evaluation or a check. For commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rltrain.config import Placement, RunConfig
from rltrain.launch.preflight import preflight
from rltrain.placement.cluster import find_cluster
from rltrain.placement.resolve import place_run
from rltrain.plan.draft import Plan
from rltrain.plugins.manager import RunPlugins
from rltrain.plugins.registry import Registry
from rltrain.ranks.logs import RankLog
from rltrain.run.worker import carry_out
from rltrain.specs import BackendSpec
from rltrain.types import ProcessGroup, World

__all__ = ["find_cluster", "on_placement", "on_ranks", "place_run", "preflight", "process_group"]

T = TypeVar("T")
PlacementT = TypeVar("PlacementT", bound=Placement)


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
    return on_placement(plan.config, plan.world, plan.registry, work)


def on_placement(
    placement: PlacementT,
    world: World | None,
    registry: Registry,
    work: Callable[[PlacementT, World, RankLog], T | None],
) -> T | None:
    """Do work that needs no run, only ranks; else as `on_ranks`.

    Args:
        placement: where the ranks are, as `place_run` returns it.
        world: the rank that this process is; None to start ranks.
        registry: the installed plugins.
        work: what each rank does. It can be pickled.
    """
    found = carry_out(work, placement, world, registry)
    is_root = placement.node_rank == 0 if world is None else world.is_root
    return found if is_root else None


@contextmanager
def process_group(
    placement: Placement, world: World, backend: BackendSpec
) -> Iterator[ProcessGroup]:
    """Make a rank's process group as a training run does, and close it. Collective.

    Args:
        placement: where the ranks are.
        world: this rank.
        backend: makes the group.
    """
    plugins = RunPlugins()
    plugins.choose(backend, placement.plugins)
    try:
        group: ProcessGroup = plugins.first(
            "rltrain_init_distributed", f"backend {backend.name!r}", world=world, config=placement
        )
        yield group
        group.close()
    except BaseException as error:
        # A backend may have to exit at once: waiting for peers that are gone would hang.
        plugins.call_each("rltrain_shutdown", session=None, error=error)
        raise
