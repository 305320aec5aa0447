"""N ranks in one process: the fake process group."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rltrain.plugins.installed import without_given
from rltrain.testing.fake.group import Collective, FakeGroup
from rltrain.testing.fake.run import FakeRun, Fault, variables
from rltrain.testing.fake.training import RankRun, named, plan_for, train_rank
from rltrain.types import World

T = TypeVar("T")

_ONE_AT_A_TIME = threading.Lock()


class FakeWorld:
    """Runs a function as N ranks in one process, with real arithmetic, in milliseconds.

    Ranks are threads that pass a baton: exactly one runs at a time, and control changes hands only
    inside a collective. Therefore the order of events is the same in every run, each rank has its
    own process-global state (`os.environ`, the generators of `random`, numpy and torch), and a
    deadlock is detected at once.

    Examples:
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
            num_nodes: number of nodes, with equally many ranks. With several nodes, local ranks
                differ from ranks.
            torch: whether every rank of `run` also has torch's default group, for library code
                that calls `torch.distributed` itself. In `train` the framework decides.
            faults: the faults to plant.
            rank_local: attributes of which each rank gets its own copy, as
                "module:path.to.attribute", such as "skrl:config.torch". The modules are imported.

        Raises:
            ValueError: the ranks do not divide evenly over the nodes, or a fault is at no rank.
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
                raise ValueError(
                    f"Invalid fault: {fault}. Ranks go from 0 to {world_size - 1}, and `at` starts "
                    "at 1."
                )
        self._rank_local = tuple(rank_local)

    def run(self, function: Callable[[FakeGroup], T]) -> list[T]:
        """Call `function(group)` on every rank.

        Args:
            function: the work of one rank. Each rank starts with the caller's random generator
                states, and with its own variables RANK, LOCAL_RANK, WORLD_SIZE, ...

        Returns:
            The function's results by rank; None for a rank that a fault made return early.

        Raises:
            Deadlock: no rank could continue.
            CollectiveMismatch: ranks called different collectives.
            FaultNotReached: a planted fault did not happen.
            BaseException: the error of the first rank that failed, with its own traceback.
        """
        return self._run(function, self._torch)

    def train(
        self, *, observers: Sequence[Callable[[], object] | str] = (), **options: Any
    ) -> list[RankRun]:
        """Train as `rltrain.train` does, with the installed plugins, on the ranks of this world.

        The backend seeds and wraps models as usual, but this world provides the process group, and
        there is no launcher. Ranks run in the caller's process, so errors have their own traceback,
        and debuggers work.

        Args:
            observers: names, as for `rltrain.train`; or classes and functions, each called once on
                every rank, whose objects are registered with the run, to wrap or watch its hooks. A
                class that a plugin declares with options is given those of the run.
            **options: as for `rltrain.train`, with `plugins` that are not installed. By default
                there are no writers and the device is the CPU.

        Returns:
            Each rank's result, models and observers.

        Raises:
            rltrain.errors.UsageError: an option is wrong, or a combination cannot work.
            BaseException: what `run` raises.
        """
        with without_given(options) as chosen:
            watching = [named(each) for each in observers]
            chosen["observers"] = [each for each in watching if isinstance(each, str)]
            plan = plan_for(chosen, variables(self._worlds[0]))
            on_torch = self._torch or plan.config.framework == "torch"
            return self._run(lambda group: train_rank(plan, group, watching), on_torch)

    def _run(self, function: Callable[[FakeGroup], T], on_torch: bool) -> list[T]:
        if not _ONE_AT_A_TIME.acquire(blocking=False):
            raise RuntimeError("A fake world is running in this process: only one can at a time.")
        with contextlib.ExitStack() as stack:
            stack.callback(_ONE_AT_A_TIME.release)
            if on_torch:
                from rltrain.testing.fake import torch_group

                stack.enter_context(torch_group.rank_threads())
                function = torch_group.with_default_group(function)
            run = FakeRun(self._worlds, self._faults, self._rank_local)
            self.trace, self.errors = run.trace, run.errors
            return run.run(function)


def _worlds(world_size: int, num_nodes: int) -> list[World]:
    local = world_size // num_nodes
    return [
        World(rank, rank % local, rank // local, world_size, local, num_nodes)
        for rank in range(world_size)
    ]
