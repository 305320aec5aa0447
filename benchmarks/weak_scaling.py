"""Measures weak scaling: the same number of environments per rank, on one rank and on several.

    python benchmarks/weak_scaling.py --task Mjlab-Cartpole-Balance
    python benchmarks/weak_scaling.py --library rsl_rl --ranks 4 --rounds 5

Efficiency is the frames per second of N ranks, divided by N times those of one rank. A run's speed
is the median over its iterations without the first ones, in which programs are compiled and
buffers are allocated. Each rank has one thread, even if there is only one rank. Runs on one rank
and on several alternate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile

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
    print(f"| task | library | frames/s, 1 rank | frames/s, {n} ranks | efficiency | spread |")
    print("|---|---|---|---|---|---|", flush=True)
    for library in arguments.library or LIBRARIES:
        one, many = [], []
        for _ in range(arguments.rounds):
            one.append(frames_per_second(library, arguments.task, 1, arguments.iterations))
            many.append(frames_per_second(library, arguments.task, n, arguments.iterations))
        shares = [all_ranks / (n * alone) for alone, all_ranks in zip(one, many, strict=True)]
        print(
            f"| {arguments.task} | {library} | {statistics.median(one):,.0f} | "
            f"{statistics.median(many):,.0f} | {statistics.median(shares):.0%} | "
            f"{min(shares):.0%} to {max(shares):.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
