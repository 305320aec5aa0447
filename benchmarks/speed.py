"""Measures how fast ranks train: with each library's own code, with rltrain, and without speaking.

    python benchmarks/speed.py
    python benchmarks/speed.py --library rsl_rl --ranks 2 --num-envs 64 512 --rounds 5
    python benchmarks/speed.py --ranks 2 --ways native matched gloo

Each row trains the embedded cart-pole on real processes, each with one thread. "native" is the
library's own runner and agent on gloo, of which only the startup is replaced (see `alone.py`), as
it comes; "matched" is the same with what rltrain gives its ranks besides: they keep to their cores,
and use freed memory again. "gloo" and "mpi" are rltrain with these backends. "bare" is rltrain with
one bare all-reduce of as many bytes in the place of each average of gradients. "free" are as many
single processes at the same time, which never speak. A run's speed is that of its median iteration,
without the first ones. The ways take turns, round after round.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from alone import LIBRARIES, TASK, train
from ranks import on_mpi_ranks, on_ranks

from rltrain import hookimpl
from rltrain.errors import DivergenceError
from rltrain.ranks.machine import bind_cores, keep_freed_memory
from rltrain.session import Session
from rltrain.types import GradientSync, World

WAYS = ("native", "matched", "gloo", "mpi", "bare", "free")
RATIOS = (
    ("gloo", "native"),
    ("gloo", "matched"),
    ("mpi", "native"),
    ("mpi", "matched"),
    ("gloo", "bare"),
    ("gloo", "free"),
    ("mpi", "free"),
    ("free", "native"),
    ("free", "matched"),
)
ON_ONE_RANK = ("native", "matched", "free")
WARM_UP = 3
"""Iterations at the start that are not counted."""

_SKRL = {"agent.learning_rate_scheduler": "KLAdaptiveLR"}
"""The other libraries adapt the learning rate by default."""


Speeds = dict[str, list[float]]
"""By way, environment steps per second of all ranks together, a value a round."""


def run_rank(way: str, library: str, num_envs: int, iterations: int, folder: str) -> list[float]:
    """Train as one rank; return the seconds of each iteration."""
    import torch

    torch.set_num_threads(1)
    laps: list[float] = []

    def lap() -> None:
        laps.append(time.perf_counter())

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    def bound_lap() -> None:
        if not laps and ranks > 1:
            bind_cores(World(rank, rank, 0, ranks, ranks))  # As rltrain does with its ranks.
        lap()

    agent = _SKRL if library == "skrl" else {}
    if way in ("native", "matched"):
        if way == "matched":
            keep_freed_memory()  # As rltrain does.
        started = bound_lap if way == "matched" else lap
        own = "native" if ranks == 1 else "native rank"
        train(own, library, "cpu", num_envs, iterations, folder, started, agent)
    elif way == "free":
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            del os.environ[name]
        train("rltrain", library, "cpu", num_envs, iterations, folder, lap, agent)
    else:
        run = functools.partial(
            train, "rank", library, "cpu", num_envs, iterations, folder, bound_lap, agent
        )
        if way == "bare":
            # Ranks that average nothing differ, which the check at the end finds.
            with contextlib.suppress(DivergenceError):
                run("gloo", [("bare", Bare())])
        else:
            run(way)
    return [later - earlier for earlier, later in itertools.pairwise(laps)]


class Bare:
    """A gradient sync that averages nothing, but costs one all-reduce of as many bytes."""

    @hookimpl
    def rltrain_gradient_sync(self, session: Session, parameters: Any) -> GradientSync:
        """Return the gradient sync."""
        import torch

        buffer = torch.zeros(sum(parameter.numel() for parameter in parameters))

        def sync(gradients: Any) -> Any:
            session.group.all_reduce(buffer)
            return gradients

        return sync


def speed(way: str, library: str, ranks: int, num_envs: int, iterations: int) -> float:
    """Train once, and return the environment steps per second of all ranks together.

    Raises:
        SystemExit: the run failed.
    """
    start = on_mpi_ranks if way == "mpi" else on_ranks
    found = start(run_rank, ranks, way, library, num_envs, WARM_UP + iterations + 1)
    if isinstance(found, str):
        sys.exit(f"{library}, {way}: {found}")
    steps = num_envs * steps_of(library)
    return sum(steps / statistics.median(seconds[WARM_UP:]) for seconds in found)


def steps_of(library: str) -> int:
    """Return the steps of an environment in an iteration, by default."""
    from rltrain.plan.resolve import make_plan

    plan = make_plan({"library": library, "task": TASK, "device": "cpu"}, {})
    assert plan.iteration is not None
    return plan.iteration.steps


def measure(
    ways: Sequence[str], library: str, ranks: int, num_envs: int, iterations: int, rounds: int
) -> Speeds:
    """Train in each way, one after the other, again and again."""
    speeds: Speeds = {way: [] for way in ways if ranks > 1 or way in ON_ONE_RANK}
    for _ in range(rounds):
        for way, found in speeds.items():
            found.append(speed(way, library, ranks, num_envs, iterations))
    return speeds


def ratio(speeds: Speeds, some: str, others: str) -> str:
    """Return the median of the rounds' ratios, and the smallest and largest."""
    if not {some, others} <= speeds.keys():
        return ""
    each = [one / other for one, other in zip(speeds[some], speeds[others], strict=True)]
    return f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"


def main() -> None:
    """Print a row for each library and number of environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", nargs="+", default=LIBRARIES)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    given = parser.parse_args()
    print(f"{TASK} on {os.cpu_count()} cores; environment steps/s of all ranks\n")
    ratios = [each for each in RATIOS if {*each} <= {*given.ways}]
    head = ["library", "ranks", "environments each", *given.ways]
    head += [" to ".join(each) for each in ratios]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for library in given.library:
        for ranks in given.ranks:
            for num_envs in given.num_envs:
                found = measure(
                    given.ways, library, ranks, num_envs, given.iterations, given.rounds
                )
                cells = [library, str(ranks), str(num_envs)]
                cells += [
                    f"{statistics.median(found[way]):,.0f}" if way in found else ""
                    for way in given.ways
                ]
                cells += [ratio(found, *each) for each in ratios]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
