"""Measures a training step with gradients sent during the backward pass, and after it.

    python benchmarks/overlap.py
    python benchmarks/overlap.py --backend gloo --megabytes 1 10 --batch 256

A step is the forward and backward pass of a network with eight equal layers, and one average of its
gradients: by `flat`, by `overlap`, and none ("alone"). All take turns within one run. Each number
is the median of rank 0's milliseconds. Run it in a network namespace with a limited loopback
interface for a slow network (docs/speed.md).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

from sync import joined, medians, sync_of

from ranks import on_mpi_ranks, on_ranks

WAYS = ("alone", "flat", "overlap")
LAYERS = 8
SECONDS = 10.0
"""How long one size is measured, about."""


def run_rank(backend: str, megabytes: float, batch: int, folder: str) -> dict[str, float]:
    """Train in one rank; return the median seconds of each way."""
    import torch

    group = joined(backend)
    width = max(int((megabytes * 1e6 / 4 / LAYERS) ** 0.5), 1)
    x = torch.randn(batch, width)
    steps = {way: _step(way, group, width, x) for way in WAYS}
    return medians(group, steps, SECONDS)


def _step(way: str, group: Any, width: int, x: Any) -> Callable[[], None]:
    import torch

    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers)
    parameters = list(model.parameters())
    sync = None if way == "alone" else sync_of(way, group, parameters)

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        model(x).square().mean().backward()
        if sync is not None:
            sync([parameter.grad for parameter in parameters])

    return step


def main() -> None:
    """Print a row for each backend and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", nargs="+", default=["gloo"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0.1, 1, 4, 16, 68])
    parser.add_argument("--batch", type=int, default=512)
    given = parser.parse_args()
    print(f"{given.ranks} ranks on {os.cpu_count()} cores, batches of {given.batch}; ms a step\n")
    head = ["backend", "MB", *WAYS, "overlap to flat"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for backend in given.backend:
        for megabytes in given.megabytes:
            start = on_mpi_ranks if backend == "mpi" else on_ranks
            found = start(run_rank, given.ranks, backend, megabytes, given.batch)
            if isinstance(found, str):
                sys.exit(f"{backend}, {megabytes} MB: {found}")
            took = found[0]
            cells = [f"{1e3 * took[way]:.3g}" for way in WAYS]
            row = [backend, f"{megabytes:g}", *cells, f"{took['overlap'] / took['flat']:.2f}"]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
