"""A rank that fails, or waits for one that does; started by `test_jax_failures`."""

from __future__ import annotations

import os
import sys
import time

import jax.numpy as jnp

from rltrain.config import Placement
from rltrain.launch import make_report
from rltrain.types import World
from rltrain_jax.backends import JaxBackend


def work(group, how, culprit):
    for step in range(10**9):
        if group.rank == culprit and step == 3:
            print(f"acts at {time.time()}", flush=True)
            if how == "raises":
                raise LookupError("this is what went wrong")
            if how == "exits":
                os._exit(3)
            time.sleep(3600)  # Stuck.
        group.all_reduce(jnp.ones(3))


def main(rank: int, size: int, how: str, culprit: int) -> None:
    backend, error = JaxBackend(), None
    try:
        world = World(rank, rank, 0, size, size)
        group = backend.rltrain_init_distributed(world, Placement(backend="jax"))
        work(group, how, culprit)
    except BaseException as raised:
        error = raised
        print(f"reports {make_report(rank, raised).kind}", flush=True)
        raise
    finally:
        backend.rltrain_shutdown(error=error)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
