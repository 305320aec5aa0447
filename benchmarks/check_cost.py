"""Measures the cost of the divergence check, and compares it with the time of an iteration.

    python benchmarks/check_cost.py
    python benchmarks/check_cost.py --library rsl_rl --checks 100

Two gloo ranks with 64 environments each train the embedded cart-pole. After training they repeat
the check on everything that it compares: parameters, buffers, learning rates and Adam's moments.
The last column is the check's share of the run's time at the default interval.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from ranks import on_ranks
from rltrain import hookimpl
from rltrain.metrics.divergence import check_divergence
from rltrain.testing import make_config

ITERATIONS = 20

WIDE = [512, 256, 128]
AGENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rl_games": ({}, {"params.network.mlp.units": WIDE}),
    "rsl_rl": ({}, {"actor.hidden_dims": WIDE, "critic.hidden_dims": WIDE}),
    "skrl": ({}, {"models.policy.network.0.layers": WIDE, "models.value.network.0.layers": WIDE}),
}
"""Options for two network sizes, by library: rltrain's default, and one typical for robots."""


class Clock:
    """An observer that times the check after training."""

    def __init__(self, checks: int) -> None:
        """Time the check `checks` times."""
        self.checks, self.times = checks, list[float]()

    @hookimpl
    def rltrain_shutdown(self, session: Any) -> None:
        """Time the check, on all ranks together."""
        for _ in range(self.checks):
            session.group.barrier()
            began = time.perf_counter()
            check_divergence(session.group, session.recorder.watched, 0)
            self.times.append(time.perf_counter() - began)


def train(library: str, agent: dict[str, Any], checks: int, folder: str) -> tuple[float, Any]:
    """Run one rank; return the time of an iteration and the times of the checks, in s."""
    from rltrain.plan.resolve import make_plan
    from rltrain.run.worker import make_session

    plan = make_plan(
        {
            "library": library,
            "agent": agent,
            "num_envs": 64,
            "max_iterations": ITERATIONS,
            "check_interval": 0,
            "distributed": True,
            "device": "cpu",
            "writers": (),
            "log_root": folder,
        }
    )
    assert plan.world is not None
    clock = Clock(checks)
    result = make_session(plan.config, plan.world, plan.registry, [("clock", clock)]).run()
    return result.seconds / ITERATIONS, clock.times


def main() -> None:
    """Print one row for each library and network size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append")
    parser.add_argument("--checks", type=int, default=50)
    arguments = parser.parse_args()
    interval = make_config().check_interval
    print("| library | layers | iteration, ms | check, ms (lowest..highest) | share |")
    print("|---|---|---|---|---|", flush=True)
    for library in arguments.library or AGENTS:
        for layers, agent in zip(("default", WIDE), AGENTS[library], strict=True):
            ranks = on_ranks(train, 2, library, agent, arguments.checks)
            assert not isinstance(ranks, str), ranks
            iteration, times = ranks[0]
            check = statistics.median(times)
            print(
                f"| {library} | {layers} | {1e3 * iteration:.0f} | {1e3 * check:.1f} "
                f"({1e3 * min(times):.1f}..{1e3 * max(times):.1f}) | "
                f"{check / interval / iteration:.2%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
