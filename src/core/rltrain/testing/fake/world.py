"""N ranks in one process: the fake process group."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rltrain.testing.fake.collectives import Collective
from rltrain.testing.fake.faults import Fault
from rltrain.testing.fake.group import FakeGroup
from rltrain.testing.fake.run import FakeRun, rank_variables
from rltrain.testing.fake.training import RankRun, plan_for, train_rank
from rltrain.types import World

__all__ = ["FakeWorld"]

T = TypeVar("T")

_ONE_AT_A_TIME = threading.Lock()


class FakeWorld:
    """Runs a function as N ranks in one process, with real arithmetic, in milliseconds.

    Ranks are threads that pass a baton: exactly one runs at a time, and control changes hands only
    inside a collective. The order of events is therefore the same in every run, what is global in a
    process is each rank's own (`os.environ`, the generators of `random`, numpy and torch), and a
    deadlock is found at once.

    Example:
        >>> import numpy as np
        >>> FakeWorld(3).run(lambda group: float(group.all_reduce(np.ones(1))[0]))
        [3.0, 3.0, 3.0]

    Attributes:
        trace: the completed collectives of the last run, in order.
        errors: what each rank that failed in the last run raised, by rank.
    """

    def __init__(
        self,
        world_size: int,
        *,
        num_nodes: int = 1,
        torch: bool = False,
        faults: Iterable[Fault] = (),
        rank_local: Sequence[str] = (),
    ) -> None:
        """Describe the world.

        Args:
            world_size: number of ranks.
            num_nodes: nodes that they are spread over evenly: local ranks then differ from ranks.
            torch: whether every rank of `run` also has torch's default group, for library code
                that calls `torch.distributed` itself. In `train` it goes by the framework.
            faults: what is to go wrong.
            rank_local: attributes of which each rank has its own, as "module:path.to.attribute",
                such as "skrl:config.torch". The modules are imported.

        Raises:
            ValueError: the numbers do not fit together.
        """
        if world_size < 1 or num_nodes < 1 or world_size % num_nodes:
            raise ValueError(f"{world_size} ranks cannot be spread evenly over {num_nodes} nodes.")
        self.world_size = world_size
        self.trace: list[Collective] = []
        self.errors: dict[int, BaseException] = {}
        self._worlds = _worlds(world_size, num_nodes)
        self._torch = torch
        self._faults = tuple(faults)
        for fault in self._faults:
            if not 0 <= fault.rank < world_size or fault.at < 1:
                raise ValueError(f"There is no such place for a fault: {fault}.")
        self._rank_local = tuple(rank_local)

    def run(self, function: Callable[[FakeGroup], T]) -> list[T]:
        """Call `function(group)` on every rank.

        Args:
            function: what one rank does. Each rank starts with the caller's state of the random
                generators, and with the variables RANK, LOCAL_RANK, WORLD_SIZE, ... of its place.

        Returns:
            What it returned, by rank; None for a rank that a fault made return early.

        Raises:
            Deadlock: no rank could go on.
            CollectiveMismatch: ranks called different collectives.
            FaultNotReached: a planted fault did not come to pass.
            BaseException: what the first rank to fail raised, with its own traceback.
        """
        return self._run(function, self._torch)

    def train(
        self, *, observers: Sequence[Callable[[], object]] = (), **options: Any
    ) -> list[RankRun]:
        """Train as `rltrain.train` does, with the installed plugins, on the ranks of this world.

        The backend seeds and wraps models as always; only its process group is this world's, and no
        launcher starts anything. The caller's process is where ranks run, so that what they raise
        has its own traceback, and a debugger stops in them.

        Args:
            observers: called once on every rank; what they return is registered with the run, to
                wrap or watch its hooks.
            **options: fields of `rltrain.options.RunOptions`. There are no writers and the device
                is the CPU unless these say otherwise.

        Returns:
            Each rank's result, models and observers.

        Raises:
            rltrain.errors.UsageError: an option is wrong, or a combination cannot work.
            BaseException: what `run` raises.
        """
        plan = plan_for(options, rank_variables(self._worlds[0]))
        on_torch = self._torch or plan.config.framework == "torch"
        return self._run(lambda group: train_rank(plan, group, observers), on_torch)

    def _run(self, function: Callable[[FakeGroup], T], on_torch: bool) -> list[T]:
        if not _ONE_AT_A_TIME.acquire(blocking=False):
            raise RuntimeError("A fake world is running in this process: only one can at a time.")
        try:
            with contextlib.ExitStack() as stack:
                if on_torch:
                    from rltrain.testing.fake import torch_face

                    stack.enter_context(torch_face.rank_threads())
                    function = torch_face.with_default_group(function)
                run = FakeRun(self._worlds, self._faults, self._rank_local)
                self.trace, self.errors = run.trace, run.errors
                return run.run(function)
        finally:
            _ONE_AT_A_TIME.release()


def _worlds(world_size: int, num_nodes: int) -> list[World]:
    local = world_size // num_nodes
    return [
        World(rank, rank % local, rank // local, world_size, local, num_nodes)
        for rank in range(world_size)
    ]
