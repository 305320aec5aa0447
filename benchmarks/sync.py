"""Measures one average of gradients by each gradient sync, and one bare all-reduce of their bytes.

    python benchmarks/sync.py
    python benchmarks/sync.py --ranks 2 --backend gloo mpi --megabytes 0.1 1 10 68

The gradients are those of twelve parameters of equal size. "copied" copies them into one buffer
before the bare all-reduce: the least that gradients cost which lie apart. All ways take turns
within one run, so that a busy machine slows them alike. Numbers are rank 0's medians, in seconds.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ranks import on_mpi_ranks, on_ranks

from rltrain.ranks.machine import bind_cores, keep_freed_memory
from rltrain.types import World

SYNCS = ("flat", "bf16")
PARAMETERS = 12
SECONDS = 4.0
"""How long one size is measured, about."""


def run_rank(backend: str, megabytes: float, folder: str) -> dict[str, float]:
    """Average in one rank; return the median seconds of each way."""
    import torch

    group = joined(backend)
    size = max(int(megabytes * 1e6 / 4 / PARAMETERS), 1)
    parameters = [torch.zeros(size) for _ in range(PARAMETERS)]
    gradients = [torch.zeros(size) for _ in parameters]
    whole = torch.zeros(size * PARAMETERS)
    buffer = torch.empty_like(whole)
    parts = buffer.split(size)

    def bare() -> None:
        group.all_reduce(whole)

    def copied() -> None:
        torch._foreach_copy_(parts, gradients)
        group.all_reduce(buffer)

    def written() -> None:
        """Leave in the caches what a backward pass has just written, for each way alike."""
        for gradient in (whole, *gradients):
            gradient.fill_(1.0)  # Else sums of sums would overflow.

    ways: dict[str, Callable[[], Any]] = {"bare": bare, "copied": copied}
    for name in SYNCS:
        ways[name] = functools.partial(sync_of(name, group, parameters), gradients)
    return medians(group, ways, SECONDS, before=written)


def medians(
    group: Any,
    ways: Mapping[str, Callable[[], Any]],
    seconds: float,
    before: Callable[[], Any] = lambda: None,
) -> dict[str, float]:
    """Let ways take turns, and return the median seconds of each. Collective; it ends the group.

    Args:
        group: the ranks.
        ways: by name, what to call.
        seconds: how long all of it takes, about.
        before: called before each call, and not timed.
    """
    import torch

    took: dict[str, list[float]] = {name: [] for name in ways}
    rounds = None
    start, done = time.perf_counter(), 0
    while rounds is None or done < rounds:
        for name, call in ways.items():
            before()
            group.barrier()
            began = time.perf_counter()
            call()
            took[name].append(time.perf_counter() - began)
        done += 1
        if done == 5:  # All ranks must make as many.
            one = (time.perf_counter() - start) / done
            rounds = int(group.broadcast(torch.tensor(float(max(10, min(seconds / one, 2000))))))
    group.close()
    return {name: statistics.median(each[3:]) for name, each in took.items()}


def joined(backend: str) -> Any:
    """Join the other ranks, with one thread and its own core, as a rank that rltrain starts."""
    import torch

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    world = World(rank, rank, 0, ranks, ranks)
    torch.set_num_threads(1)
    keep_freed_memory()
    group = _group(backend, world)
    bind_cores(world)
    return group


def _group(backend: str, world: World) -> Any:
    if backend == "mpi":
        from rltrain.testing import make_config
        from rltrain_mpi.backend import MpiBackend

        config = make_config(distributed=True, backend="mpi", nproc_per_node=world.world_size)
        return MpiBackend().rltrain_init_distributed(world, config)
    from rltrain_torch.group import TorchProcessGroup

    return TorchProcessGroup("gloo", world)


def sync_of(name: str, group: Any, parameters: Any) -> Any:
    """Make a gradient sync, as a session does."""
    from types import SimpleNamespace

    from rltrain.plugins.registry import discover
    from rltrain.specs import GradientSyncSpec, load_object

    plugin = load_object(discover().get(GradientSyncSpec, name).factory)()
    hook: Any = plugin.rltrain_gradient_sync
    wanted = {"session": SimpleNamespace(group=group), "parameters": parameters, "extras": 0}
    taken = hook.__code__.co_varnames[1 : hook.__code__.co_argcount]
    return hook(**{key: value for key, value in wanted.items() if key in taken})


def main() -> None:
    """Print a row for each backend, number of ranks and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", nargs="+", default=["gloo", "mpi"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0.02, 0.1, 1, 10, 68])
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores; milliseconds of one average, and as a multiple of bare\n")
    head = [
        "backend",
        "ranks",
        "MB",
        "bare",
        *(x for name in ("copied", *SYNCS) for x in (name, "to bare")),
    ]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for backend in given.backend:
        for ranks in given.ranks:
            for megabytes in given.megabytes:
                start = on_mpi_ranks if backend == "mpi" else on_ranks
                found = start(run_rank, ranks, backend, megabytes)
                if isinstance(found, str):
                    sys.exit(f"{backend}, {ranks} ranks, {megabytes} MB: {found}")
                bare = found[0]["bare"]
                cells = [f"{1e3 * bare:.3g}"]
                for name in ("copied", *SYNCS):
                    cells += [f"{1e3 * found[0][name]:.3g}", f"{found[0][name] / bare:.2f}"]
                row = [backend, str(ranks), f"{megabytes:g}", *cells]
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
