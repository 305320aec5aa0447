"""Checks that every library learns every task, on one and two ranks, over several seeds.

    python benchmarks/learning.py
    python benchmarks/learning.py --library skrl --task Pendulum-v1 --seeds 1

A row passes if the median final return over the seeds is above the threshold. The final return is
the mean over the last hundred or more episodes of all ranks. The random policy draws its actions
from the action space (uniformly between finite bounds), in a hundred episodes. Tasks of suites that
are not installed are skipped; for mjlab's tasks, run this in a separate virtual environment.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

import numpy as np

import rltrain
from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain_devkit.kits.suite_settings import SuiteSettings


@dataclass(frozen=True)
class Task:
    """A task, and the return that counts as learned."""

    name: str
    threshold: float
    libraries: tuple[str, ...] = ("rl_games", "rsl_rl", "skrl")
    ranks: tuple[int, ...] = (1, 2)
    iterations: int | None = None
    """None means the library's default."""


TASKS = [
    Task("rltrain/CartPoleContinuous-v1", 400),
    Task("Pendulum-v1", -300),
    Task("HalfCheetah-v5", 300, ("rsl_rl",), ranks=(2,), iterations=100),
    Task("rltrain/CartPoleContinuousCamera-v1", 475, ranks=(2,)),
    Task("envpool/HalfCheetah-v4", 1500, ranks=(2,)),
    Task("Mjlab-Cartpole-Balance", 40, ranks=(2,)),
]


def random_return(task: str, episodes: int = 100) -> float:
    """Return the mean return of the random policy.

    Raises:
        UsageError: the task cannot be made on this machine.
    """
    settings = SuiteSettings()
    settings.task, settings.num_envs = task, episodes
    settings.suite = str(make_plan({"task": task}).config.suite)
    running, final = np.zeros(episodes), np.full(episodes, np.nan)
    # Simulators print to stdout, which is for the table.
    with contextlib.redirect_stdout(sys.stderr), settings.player() as player:
        player.reset(seed=0)
        while np.isnan(final).any():
            step = player.step()
            running += step.rewards[:, 0]
            first = step.ended & np.isnan(final)
            final[first] = running[first]
    return float(final.mean())


def final_return(library: str, task: Task, ranks: int, seed: int, folder: str) -> float:
    """Train with the defaults and return the final return."""
    result = rltrain.train(
        library=library,
        task=task.name,
        max_iterations=task.iterations,
        seed=seed,
        distributed=ranks > 1,
        nproc_per_node=ranks if ranks > 1 else None,
        log_root=folder,
        device="cpu",
        writers=(),
    )
    assert result.episode_return is not None
    return result.episode_return


def main() -> None:
    """Print one row for each library, task and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append")
    parser.add_argument("--task", action="append")
    parser.add_argument("--ranks", action="append", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print("| task | library | ranks | random | threshold | median | lowest | highest | s per run |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    failed = False
    for task in TASKS:
        if arguments.task and task.name not in arguments.task:
            continue
        try:
            random = random_return(task.name)
        except UsageError as error:
            print(f"{task.name}: {error}", file=sys.stderr, flush=True)
            continue
        for library in arguments.library or task.libraries:
            for ranks in arguments.ranks or task.ranks:
                failed |= _row(task, library, ranks, arguments.seeds, random)
    if failed:
        raise SystemExit("A median is below its threshold.")


def _row(task: Task, library: str, ranks: int, seeds: int, random: float) -> bool:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        returns = [final_return(library, task, ranks, seed, folder) for seed in range(1, seeds + 1)]
    seconds = (time.monotonic() - started) / seeds
    median = statistics.median(returns)
    print(
        f"| {task.name} | {library} | {ranks} | {random:.0f} | {task.threshold:.0f} | "
        f"{median:.0f} | {min(returns):.0f} | {max(returns):.0f} | {seconds:.0f} |",
        flush=True,
    )
    return median < task.threshold


if __name__ == "__main__":
    main()
