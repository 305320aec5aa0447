"""A process group of threads: real exchange between ranks, in one process."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

_OPS: Any = {"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max}


class _Rank:
    def __init__(self, rank: int, slots: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.world_size, self.device = rank, len(slots), "cpu"
        self._slots, self._barrier = slots, barrier
        self.closed = 0

    def gather_objects(self, obj):
        self._slots[self.rank] = obj
        self._barrier.wait(20)
        gathered = list(self._slots)
        self._barrier.wait(20)
        return gathered

    def all_reduce(self, x, op="sum"):
        return _OPS[op](self.gather_objects(x), axis=0)

    def broadcast(self, x, src=0):
        return self.gather_objects(x)[src]

    broadcast_object = broadcast

    def barrier(self):
        self.gather_objects(None)

    def close(self):
        self.closed += 1


def run_ranks(world_size: int, work: Any) -> list[Any]:
    """Call `work(group)` on every rank; return results, or raised errors, by rank."""
    slots: list[Any] = [None] * world_size
    results: list[Any] = [None] * world_size
    barrier = threading.Barrier(world_size)

    def one(rank: int) -> None:
        try:
            results[rank] = work(_Rank(rank, slots, barrier))
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results
