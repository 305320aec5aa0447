"""Measures weak scaling: the same number of environments per rank, on one rank and on several.

    python benchmarks/weak_scaling.py --task Mjlab-Cartpole-Balance
    python benchmarks/weak_scaling.py --library rsl_rl --ranks 4 --rounds 5

Efficiency is the frames per second of N ranks, divided by N times those of one rank. "free" are N
single processes at the same time, which never speak: what the machine allows. A run's speed
is the median over its iterations without the first ones, in which programs are compiled and
buffers are allocated. Each rank has one thread, even if there is only one rank. The ways take
turns. Efficiencies are medians of the rounds, with the smallest and largest.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import rltrain
from rltrain_tensorboard.writer import FOLDER

LIBRARIES = ("rl_games", "rsl_rl", "skrl")
WARM_UP = 5
"""Number of iterations at the start that are not counted."""


def frames_per_second(library: str, task: str, ranks: int, iterations: int) -> float:
    """Train, and return the median frames per second of all ranks together."""
    with tempfile.TemporaryDirectory() as folder:
        result = rltrain.train(
            library=library,
            task=task,
            distributed=True,
            nproc_per_node=ranks,
            max_iterations=WARM_UP + iterations,
            device="cpu",
            writers=("tensorboard",),
            log_root=folder,
        )
        events = EventAccumulator(os.path.join(result.run_dir, FOLDER))
        events.Reload()
        speeds = [event.value for event in events.Scalars("performance/fps")]
    return statistics.median(speeds[WARM_UP:])


def free(library: str, task: str, processes: int, iterations: int) -> float:
    """Train in single processes at the same time; return the frames per second of all together."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        work = (library, task, 1, iterations)
        futures = [pool.submit(frames_per_second, *work) for _ in range(processes)]
        return sum(future.result() for future in futures)


def efficiency(alone: Sequence[float], together: Sequence[float], ranks: int) -> str:
    """Return the median of the rounds, and the smallest and largest."""
    shares = [many / (ranks * one) for one, many in zip(alone, together, strict=True)]
    return f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"


def main() -> None:
    """Print one row for each library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append")
    parser.add_argument("--task", default="rltrain/CartPoleContinuous-v1")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=20)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    n = arguments.ranks
    head = ["task", "library", *(f"frames/s, {name}" for name in ("1 rank", f"{n} ranks", "free"))]
    head += ["efficiency", "efficiency of free", "ranks to free"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for library in arguments.library or LIBRARIES:
        one: list[float] = []
        many: list[float] = []
        apart: list[float] = []
        for _ in range(arguments.rounds):
            one.append(frames_per_second(library, arguments.task, 1, arguments.iterations))
            many.append(frames_per_second(library, arguments.task, n, arguments.iterations))
            apart.append(free(library, arguments.task, n, arguments.iterations))
        medians = (f"{statistics.median(speeds):,.0f}" for speeds in (one, many, apart))
        shares = efficiency(one, many, n), efficiency(one, apart, n), efficiency(apart, many, 1)
        print(f"| {' | '.join([arguments.task, library, *medians, *shares])} |", flush=True)


if __name__ == "__main__":
    main()
