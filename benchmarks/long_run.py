"""Measures whether memory, open files, threads and logs of a rank grow in a long run.

    python benchmarks/long_run.py
    python benchmarks/long_run.py --library rsl_rl --iterations 2000

Two gloo ranks train the embedded cart-pole with four environments each, in iterations of four
steps. Every 100th iteration is saved, and three checkpoints are kept. Memory is what is resident.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from ranks import on_ranks

SHARES = (0.1, 0.5, 1.0)
"""When it is measured, as shares of the run."""

AGENTS: dict[str, dict[str, Any]] = {
    "rl_games": {
        "params.config.horizon_length": 4,
        "params.config.minibatch_size": 16,
        "params.config.mini_epochs": 1,
        "params.config.save_best_after": 10**9,
    },
    "rsl_rl": {
        "num_steps_per_env": 4,
        "save_interval": 10**9,
        "algorithm.num_mini_batches": 1,
        "algorithm.num_learning_epochs": 1,
    },
    "skrl": {
        "agent.rollouts": 4,
        "agent.mini_batches": 1,
        "agent.learning_epochs": 1,
        "agent.experiment.checkpoint_interval": 0,
    },
}
"""Options that make iterations small, by library."""

Measured = dict[int, tuple[float, int, int, float]]
"""By iteration: memory in MB, open files, threads, and the run folder in MB."""


def train(library: str, iterations: int, folder: str) -> Measured:
    """Run one rank."""
    from rltrain.plan.resolve import make_plan
    from rltrain.ranks.logs import RankLog
    from rltrain.run.worker import make_session
    from rltrain.storage.run_folder import RunFolder

    options = {"library": library, "agent": AGENTS[library], "num_envs": 4, "log_root": folder}
    often = {"max_iterations": iterations, "checkpoint_interval": 100, "keep": 3}
    plan = make_plan(
        {**options, **often, "distributed": True, "device": "cpu", "writers": ("tensorboard",)}
    )
    assert plan.world is not None
    rank, found = plan.world.rank, Measured()
    session = make_session(plan.config, plan.world, plan.registry)

    with RankLog(Path(folder) / f"rank_{rank}.log") as log:

        def begin(run: RunFolder) -> None:
            log.move(run.log_file(rank))

        def after_iteration() -> None:
            log.rotate()
            print("iteration", session.iteration)
            if session.iteration in {round(share * iterations) for share in SHARES}:
                found[session.iteration] = _measure(session.run_folder.path)

        session.run(begin, after_iteration)
    return found


def _measure(run: Path) -> tuple[float, int, int, float]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    sizes = [path.stat().st_size for path in run.rglob("*") if path.is_file()]
    return (
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        sum(sizes) / 1e6,
    )


def main() -> None:
    """Print one row for each library, rank and time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append")
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one library")
    arguments = parser.parse_args()
    print("| library | rank | iteration | memory, MB | open files | threads | run folder, MB |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for library in arguments.library or AGENTS:
        ranks = on_ranks(train, 2, library, arguments.iterations, timeout=arguments.timeout)
        assert not isinstance(ranks, str), ranks
        for rank, found in enumerate(ranks):
            for iteration, (memory, files, threads, disk) in found.items():
                print(
                    f"| {library} | {rank} | {iteration:,} | {memory:.1f} | {files} | {threads} | "
                    f"{disk:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
