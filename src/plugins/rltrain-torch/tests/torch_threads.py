"""A process group of threads: real arithmetic between ranks, in one process."""

from __future__ import annotations

import threading
from typing import Any

import torch


class ThreadGroup:
    """One rank's side of the group; it counts its all-reduces."""

    def __init__(self, rank: int, slots: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.world_size, self.device = rank, len(slots), "cpu"
        self._slots, self._barrier = slots, barrier
        self.in_place = True
        self.reduced: list[torch.Tensor] = []

    def gather_objects(self, obj):
        self._slots[self.rank] = obj
        self._barrier.wait(20)
        gathered = list(self._slots)
        self._barrier.wait(20)
        return gathered

    def all_reduce(self, x, op="sum"):
        assert op == "sum"
        self.reduced.append(x)
        total = torch.stack(self.gather_objects(x.clone())).sum(0)
        return x.copy_(total) if self.in_place else total.to(x.dtype)

    def broadcast(self, x, src=0):
        return self.gather_objects(x.clone())[src]


def run_threads(world_size: int, work: Any) -> list[Any]:
    """Call `work(group)` on every rank; return the results by rank, or raise what one raised."""
    slots: list[Any] = [None] * world_size
    results: list[Any] = [None] * world_size
    errors: list[BaseException] = []
    barrier = threading.Barrier(world_size)

    def one(rank: int) -> None:
        try:
            results[rank] = work(ThreadGroup(rank, slots, barrier))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return results
