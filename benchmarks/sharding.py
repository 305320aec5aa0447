"""Compares the final return of 256 environments on one rank, on two ranks and on four ranks.

    python benchmarks/sharding.py
    python benchmarks/sharding.py --library rsl_rl --task rltrain/Pendulum-v1 --seeds 5

Every row trains with the same options, total number of environments and number of iterations, over
several seeds. The return is the mean over the last hundred or more episodes of all ranks. The seeds
differ between rows, because equal seeds would not give equal random numbers: rows agree if their
spreads overlap.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import rltrain

TOTAL_ENVS = 256
RANKS = (1, 2, 4)
LIBRARIES = ("rl_games", "rsl_rl", "skrl")


@dataclass(frozen=True)
class Task:
    """A task, and for how long it is trained."""

    name: str
    iterations: int
    agent: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options by library, for tasks whose defaults are meant for fewer environments."""


SHORT_ROLLOUTS = {
    "rl_games": {"params.config.horizon_length": 32},
    "rsl_rl": {"num_steps_per_env": 32},
    "skrl": {"agent.rollouts": 32},
}

TASKS = [
    Task("rltrain/CartPoleContinuous-v1", 40),
    Task("rltrain/Pendulum-v1", 100),
    Task("InvertedPendulum-v5", 60, SHORT_ROLLOUTS),
]


def final_return(library: str, task: Task, ranks: int, seed: int) -> float:
    """Train and return the final return."""
    with tempfile.TemporaryDirectory() as folder:
        result = rltrain.train(
            library=library,
            task=task.name,
            agent=task.agent.get(library, {}),
            total_envs=TOTAL_ENVS,
            max_iterations=task.iterations,
            # Differs between rows: equal seeds would not give equal random numbers anyway.
            seed=100 * ranks + seed,
            distributed=ranks > 1,
            nproc_per_node=ranks if ranks > 1 else None,
            log_root=folder,
            device="cpu",
            writers=(),
        )
    assert result.episode_return is not None
    return result.episode_return


def main() -> None:
    """Print one row for each task, library and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append")
    parser.add_argument("--task", action="append")
    parser.add_argument("--ranks", action="append", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    # One thread per rank in every row; otherwise a single rank would use all cores.
    os.environ["OMP_NUM_THREADS"] = "1"
    print(f"{TOTAL_ENVS} environments in all, {os.cpu_count()} cores\n")
    print("| task | iterations | library | ranks x environments | median | lowest | highest | s |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for task in TASKS:
        if arguments.task and task.name not in arguments.task:
            continue
        for library in arguments.library or LIBRARIES:
            for ranks in arguments.ranks or RANKS:
                _row(task, library, ranks, arguments.seeds)


def _row(task: Task, library: str, ranks: int, seeds: int) -> None:
    started = time.monotonic()
    returns = [final_return(library, task, ranks, seed) for seed in range(seeds)]
    seconds = (time.monotonic() - started) / seeds
    print(
        f"| {task.name} | {task.iterations} | {library} | {ranks} x {TOTAL_ENVS // ranks} | "
        f"{statistics.median(returns):.0f} | {min(returns):.0f} | {max(returns):.0f} | "
        f"{seconds:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
