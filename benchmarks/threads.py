"""How many threads one process should have: training's steps by size of network and batch.

    python benchmarks/threads.py [--busy]

For each size, forward and backward passes of an MLP with one thread and with one per core, in
turns.
With --busy, as many other processes compute as there are cores.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import time

import torch

SIZES = {
    "64 64": (64, 64),
    "256 128 64": (256, 128, 64),
    "512 256 128": (512, 256, 128),
    "1024 1024": (1024, 1024),
}
BATCHES = (8, 64, 512, 2048, 8192, 32768)
INPUTS = 48
ROUNDS = 7


def mlp(hidden: tuple[int, ...]) -> torch.nn.Module:
    """Return a network with this many units a layer."""
    sizes = (INPUTS, *hidden, 12)
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ELU()]
    return torch.nn.Sequential(*layers)


def seconds(model: torch.nn.Module, batch: torch.Tensor, grad: bool, threads: int) -> float:
    """Return how long a pass takes, of as many as fit into a twentieth of a second."""
    torch.set_num_threads(threads)
    count, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < 0.05 or count < 2:
        with torch.set_grad_enabled(grad):
            out = model(batch).square().mean()
            if grad:
                out.backward()
        count += 1
    return passed / count


def busy() -> None:
    """Keep a core busy."""
    torch.set_num_threads(1)
    a = torch.ones(256, 256)
    while True:
        a = a @ a
        a /= a.norm()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", action="store_true")
    cores = len(os.sched_getaffinity(0))
    others = []
    if parser.parse_args().busy:
        others = [multiprocessing.Process(target=busy, daemon=True) for _ in range(cores)]
    for other in others:
        other.start()
    print(f"torch {torch.__version__}, {cores} cores; 1 thread's time / that of {cores}")
    print(f"{'network':<14}{'batch':>8}{'MFLOP':>9}{'forward':>16}{'with gradients':>18}")
    for name, hidden in SIZES.items():
        model = mlp(hidden)
        parameters = sum(p.numel() for p in model.parameters())
        for size in BATCHES:
            batch = torch.randn(size, INPUTS)
            cells = []
            for grad in (False, True):
                ratios = [
                    seconds(model, batch, grad, 1) / seconds(model, batch, grad, cores)
                    for _ in range(ROUNDS)
                ]
                cells.append(
                    f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
                )
            work = 2 * parameters * size / 1e6
            print(f"{name:<14}{size:>8}{work:>9.1f}{cells[0]:>16}{cells[1]:>18}", flush=True)
    for other in others:
        other.terminate()


if __name__ == "__main__":
    main()
