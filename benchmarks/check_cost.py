"""What the divergence check costs: the same runs with a check in every iteration, and with none.

    python benchmarks/check_cost.py
    python benchmarks/check_cost.py --library rsl_rl --pairs 5

Two gloo ranks with 64 environments each train the embedded cart-pole, with a check and without in
turn. A check compares parameters, buffers, learning rates and Adam's moments. The last column is
its share of an iteration at the default interval.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from typing import Any

import rltrain
from rltrain.config import RunConfig

ITERATIONS = 60

WIDE = [512, 256, 128]
AGENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rl_games": ({}, {"params.network.mlp.units": WIDE}),
    "rsl_rl": ({}, {"actor.hidden_dims": WIDE, "critic.hidden_dims": WIDE}),
}
"""Options of two sizes of networks, by library: rltrain's default, and a robot's."""


def seconds(library: str, agent: dict[str, Any], interval: int) -> float:
    """Train, and return the time of an iteration in s."""
    with tempfile.TemporaryDirectory() as folder:
        result = rltrain.train(
            library=library,
            agent=agent,
            num_envs=64,
            max_iterations=ITERATIONS,
            check_interval=interval,
            distributed=True,
            nproc_per_node=2,
            device="cpu",
            writers=(),
            log_root=folder,
        )
    return result.seconds / ITERATIONS


def main() -> None:
    """Print one row for each library and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append")
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    interval = RunConfig().check_interval
    print("| library | layers | iteration, ms | check, ms (lowest..highest) | share |")
    print("|---|---|---|---|---|", flush=True)
    for library in arguments.library or AGENTS:
        for layers, agent in zip(("default", WIDE), AGENTS[library], strict=True):
            pairs = [
                (seconds(library, agent, 1), seconds(library, agent, 0))
                for _ in range(arguments.pairs)
            ]
            without = statistics.median(pair[1] for pair in pairs)
            costs = sorted(pair[0] - pair[1] for pair in pairs)
            cost = statistics.median(costs)
            print(
                f"| {library} | {layers} | {1e3 * without:.1f} | {1e3 * cost:.2f} "
                f"({1e3 * costs[0]:.2f}..{1e3 * costs[-1]:.2f}) | "
                f"{cost / interval / without:.2%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
