"""What efficiency to expect on many GPUs, from what `rltrain doctor` measures on a few.

It starts nothing. An iteration takes as long as on one GPU, plus one average of the gradients for
each optimizer step. The time of an average follows from two numbers of each network, the latency
of a message and the bandwidth, by the usual model of a ring (Thakur, Rabenseifner and Gropp,
"Optimization of Collective Communication Operations in MPICH", 2005, section 4): 2(p-1) messages,
and 2(p-1)/p times the bytes.

docs/scaling.md says what the columns are, and what the model leaves out.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

GPUS = (8, 64)


@dataclass(frozen=True)
class Network:
    """Messages between neighbors."""

    latency: float
    """Seconds of a message of no length."""
    bandwidth: float
    """Bytes per second."""

    def ring(self, size: float, ranks: int) -> float:
        """Return the seconds of an all-reduce of `size` bytes."""
        return 2 * self.half_ring(size, ranks)

    def half_ring(self, size: float, ranks: int) -> float:
        """Return the seconds of a reduce-scatter or an all-gather of `size` bytes in all."""
        return (ranks - 1) * (self.latency + size / ranks / self.bandwidth)


@dataclass(frozen=True)
class Task:
    """A task of Isaac Lab with its own options.

    Options: Isaac Lab 2.3.2, `agents/` of each task. Rate: frames per second of one L40, from
    "Performance Benchmarks" of Isaac Lab's documentation.
    """

    name: str
    frames: int
    """Frames of an iteration on one GPU: environments times steps."""
    steps: int
    """Optimizer steps of an iteration."""
    parameters: int
    rate: float

    @property
    def seconds(self) -> float:
        """Return the seconds of an iteration on one GPU."""
        return self.frames / self.rate

    def efficiency(self, average: float) -> float:
        """Return the efficiency if each optimizer step also takes `average` seconds."""
        return self.seconds / (self.seconds + self.steps * average)


TASKS = (
    Task("Cartpole-Direct (rl_games)", 4096 * 32, 8 * 8, 1_283, 260e3),
    Task("Cartpole-RGB (rl_games)", 1024 * 64, 32 * 4, 2_731_682, 21e3),
    Task("Velocity-Rough-G1 (rsl_rl)", 4096 * 24, 4 * 5, 651_851, 62e3),
    Task("Repose-Cube-Shadow (rl_games)", 8192 * 16, 4 * 5, 510_525, 120e3),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for where, latency, bandwidth in (("node", 10.0, 20.0), ("between", 20.0, 12.5)):
        parser.add_argument(f"--{where}-latency", type=float, default=latency, metavar="US")
        parser.add_argument(f"--{where}-bandwidth", type=float, default=bandwidth, metavar="GB/S")
    parser.add_argument("--per-node", type=int, default=8, help="GPUs of a node")
    options = parser.parse_args()
    node = Network(options.node_latency * 1e-6, options.node_bandwidth * 1e9)
    between = Network(options.between_latency * 1e-6, options.between_bandwidth * 1e9)
    print_expected(node, between, options.per_node)


def print_expected(node: Network, between: Network, per_node: int) -> None:
    """Print the efficiency of each way to average gradients."""
    print("| task | gradients | GPUs | flat | 16 bits | hierarchical |")
    print("|---|---|---|---|---|---|")
    for task in TASKS:
        size = 4 * task.parameters
        for gpus in GPUS:
            flat = (node if gpus <= per_node else between).ring
            averages = (
                flat(size, gpus),
                flat(size / 2, gpus),
                hierarchical(node, between, size, gpus, per_node),
            )
            columns = " | ".join(f"{task.efficiency(seconds):.1%}" for seconds in averages)
            print(f"| {task.name} | {size / 1e6:.2f} MB | {gpus} | {columns} |")


def hierarchical(node: Network, between: Network, size: float, gpus: int, per_node: int) -> float:
    """Return the seconds of an average inside each node, between nodes, and inside again."""
    inside = min(gpus, per_node)
    part = between.ring(size / inside, gpus // inside) if gpus > inside else 0.0
    return 2 * node.half_ring(size, inside) + part


if __name__ == "__main__":
    main()
