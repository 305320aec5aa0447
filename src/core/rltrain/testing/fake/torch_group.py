"""torch.distributed between the ranks of a fake world.

Library code that calls `torch.distributed` runs unmodified on our own c10d backend. This is the
only file that uses private parts of torch; `tests/equivalence/test_torch_contract.py` checks them
against the installed version. `register_backend`, the base class `ProcessGroup` and everything that
a library calls are public. These are private:

- `torch.distributed.distributed_c10d._world`, where torch keeps its groups, once per process;
- `_set_thread_isolation_mode`, which makes torch's C++ side keep them once per thread;
- `_create_work_from_future` and the collectives' option types, which a group in Python returns
  and receives.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from rltrain.testing.fake.group import Call, FakeGroup, caller, copied, describe, reduced
from rltrain.types import ReduceOp

T = TypeVar("T")

BACKEND = "rltrain_fake"
"""The name under which the backend is registered with torch."""

_c10d: Any = torch._C._distributed_c10d  # type: ignore[attr-defined]
_ProcessGroup: Any = dist.ProcessGroup

_OPS: dict[Any, ReduceOp] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "mean",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}

_RANK = threading.local()
"""For each rank's thread: `group`, its fake group, and `world`, torch's groups."""


class _ThreadWorld:
    """Replaces torch's `_world`, so that every rank's thread has its own groups.

    Other threads, such as those with which torch compiles, have torch's own, which has none.
    """

    def __init__(self, own: Any) -> None:
        vars(self)["_own"] = own

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_RANK, "world", self._own), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_RANK.world, name, value)


class _RankWorld(distributed_c10d._World):
    """One rank's groups: torch's `_World`, with its own tables instead of the module's."""

    group_count = 0
    pg_map = property(lambda self: self._tables["pg_map"])
    pg_names = property(lambda self: self._tables["pg_names"])
    pg_group_ranks = property(lambda self: self._tables["pg_group_ranks"])
    pg_backend_config = property(lambda self: self._tables["pg_backend_config"])
    tags_to_pg = property(lambda self: self._tables["tags_to_pg"])
    pg_to_tag = property(lambda self: self._tables["pg_to_tag"])

    def __init__(self) -> None:
        super().__init__()
        self._tables: dict[str, dict[Any, Any]] = collections.defaultdict(dict)


@contextlib.contextmanager
def rank_threads() -> Iterator[None]:
    """Let torch keep process groups per thread while the context is open."""
    if dist.is_initialized():
        raise RuntimeError(
            "A fake world cannot run in a process that has a torch process group. Destroy it first."
        )
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _make_group, devices=["cpu"])
    world, excepthook, threads = distributed_c10d._world, sys.excepthook, torch.get_num_threads()
    distributed_c10d._world = _ThreadWorld(world)  # type: ignore[assignment]
    _c10d._set_thread_isolation_mode(True)
    torch.set_num_threads(1)  # As for a real rank that shares the CPU. It is faster, too.
    try:
        yield
    finally:
        _c10d._set_thread_isolation_mode(False)
        distributed_c10d._world = world
        sys.excepthook = excepthook
        torch.set_num_threads(threads)


def with_default_group(function: Callable[[FakeGroup], T]) -> Callable[[FakeGroup], T]:
    """Wrap a function so that the rank that calls it has a torch default group."""

    def on_rank(group: FakeGroup) -> T:
        _RANK.world, _RANK.group = _RankWorld(), group
        dist.init_process_group(
            BACKEND, store=_c10d.HashStore(), rank=group.rank, world_size=group.world_size
        )
        try:
            return function(group)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()

    return on_rank


def _make_group(store: Any, rank: int, size: int, timeout: timedelta) -> FakeTorchGroup:
    return FakeTorchGroup(rank, size)


class FakeTorchGroup(_ProcessGroup):  # type: ignore[misc]
    """A c10d process group whose collectives run in a fake world.

    All collectives are complete when they return, asynchronous ones too. torch calls the methods
    by name.
    """

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._fake: FakeGroup = _RANK.group

    def getBackendName(self) -> str:
        """Return the backend's name."""
        return BACKEND

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce tensors in place."""
        op = _OPS.get(opts.reduceOp.op if hasattr(opts.reduceOp, "op") else opts.reduceOp)
        if op is None:
            raise NotImplementedError(
                f"The fake group has no reduction {opts.reduceOp}. Use SUM, AVG, MIN or MAX."
            )
        return self._in_place(
            f"all_reduce({op})",
            tensors,
            lambda sent: [[reduced(parts, op) for parts in zip(*sent, strict=True)]] * len(sent),
        )

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce several tensors in place."""
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Overwrite every rank's tensors with the source's."""
        src = opts.rootRank
        return self._in_place(
            f"broadcast(src={src})",
            tensors,
            lambda sent: [[copied(x) for x in sent[src]]] * len(sent),
        )

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Gather all ranks' tensors on every rank."""
        gathered = self._meet("all_gather", inputs, _every_rank_gets_all)
        for output, received in zip(outputs, zip(*gathered, strict=True), strict=True):
            _fill(output, received)
        return _done(outputs)

    def all_gather_single(self, output: torch.Tensor, x: torch.Tensor, opts: Any = None) -> Any:
        """Gather all ranks' tensors into one; newer torch gathers objects with this method."""
        gathered = self._meet("all_gather", [x], _every_rank_gets_all)
        parts = [part.reshape(-1) for (part,) in gathered]
        _fill([output], [torch.cat(parts).view_as(output)])
        return _done([output])

    _allgather_base = all_gather_single
    """The name in older versions of torch."""

    def barrier(self, opts: Any = None) -> Any:
        """Wait until every rank of the group has reached this point."""
        self._meet("barrier", [], lambda sent: sent)
        return _done([])

    def _in_place(
        self,
        op: str,
        tensors: list[torch.Tensor],
        combine: Callable[[list[Any]], list[Any]],
    ) -> Any:
        _fill(tensors, self._meet(op, tensors, combine))
        return _done(tensors)

    def _meet(
        self, op: str, tensors: list[torch.Tensor], combine: Callable[[list[Any]], list[Any]]
    ) -> Any:
        name = distributed_c10d._world.pg_names[self]
        members = distributed_c10d._world.pg_group_ranks[self]
        whole = len(members) == self._fake.world_size
        return self._fake.meet(
            Call(op, describe(tensors), tensors, caller()),
            combine,
            group="default" if self is dist.group.WORLD else name,
            ranks=None if whole else tuple(sorted(members, key=members.__getitem__)),
        )


def _absent(name: str) -> Callable[..., Any]:
    def method(*arguments: Any, **options: Any) -> Any:
        raise NotImplementedError(
            f"The fake group has no {name}. It has all_reduce, broadcast, all_gather (of tensors "
            "and of objects) and barrier."
        )

    return method


for _name in ("alltoall", "gather", "recv", "reduce", "reduce_scatter", "scatter", "send"):
    setattr(FakeTorchGroup, _name, _absent(_name))


def _every_rank_gets_all(sent: list[Any]) -> list[Any]:
    return [[[copied(x) for x in tensors] for tensors in sent]] * len(sent)


def _fill(outputs: list[torch.Tensor], results: Any) -> None:
    """Copy results into the given tensors; like c10d, autograd does not see it."""
    for output, result in zip(outputs, results, strict=True):
        output.detach().copy_(result)


def _done(result: Any) -> Any:
    """Return completed work."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(result)
    return _c10d._create_work_from_future(future)
