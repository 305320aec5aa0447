"""Measures the fake process group, and compares it with real processes.

    python benchmarks/fake_group.py

Prints the time of one all-reduce of a scalar, the time until a deliberate deadlock is reported, and
the time of a short training on two fake ranks, compared with two gloo processes. Each is a median,
with the lowest and the highest value. Measurements that are compared alternate.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from rltrain.testing import Deadlock, FakeGroup, FakeWorld

TRAINING = {"library": "rsl_rl", "num_envs": 32, "max_iterations": 3}


def all_reduce(world: FakeWorld, x: object, calls: int = 200) -> float:
    """Return the seconds of one all-reduce, on the slowest rank."""

    def work(group: FakeGroup) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            group.all_reduce(x)
        return (time.perf_counter() - began) / calls

    return max(world.run(work))


def deadlock() -> float:
    """Return the seconds from the start of four ranks until their deadlock is reported."""
    began = time.perf_counter()
    try:
        FakeWorld(4).run(lambda group: group.rank == 2 or group.barrier())
    except Deadlock:
        return time.perf_counter() - began
    raise AssertionError("no deadlock was reported")


def on_fake_ranks() -> float:
    """Return the seconds of a training on two fake ranks."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as logs, contextlib.redirect_stdout(io.StringIO()):
        FakeWorld(2).train(**TRAINING, log_root=logs)
    return time.perf_counter() - began


def on_processes() -> float:
    """Return the seconds of the same training, run by a command with two gloo processes."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as logs:
        words = [f"--{name.replace('_', '-')}={value}" for name, value in TRAINING.items()]
        words += ["--distributed", "--nproc-per-node=2", f"--log-root={logs}"]
        command = [sys.executable, "-m", "rltrain", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return time.perf_counter() - began


def show(what: str, unit: str, measure: Callable[[], float], repeats: int, scale: float) -> None:
    """Print the median of a measurement with its spread."""
    spread(what, unit, [measure() * scale for _ in range(repeats)])


def spread(what: str, unit: str, values: Sequence[float]) -> None:
    """Print a median with the lowest and the highest value."""
    middle = statistics.median(values)
    print(f"| {what} | {middle:.2f} {unit} | {min(values):.2f} | {max(values):.2f} |", flush=True)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)  # As many threads as a rank has on two cores.
    print("| what | median | lowest | highest |\n|---|---|---|---|")
    scalars = (("numpy", np.ones(())), ("torch", torch.ones(())))
    for ranks in (2, 4, 8):
        for name, x in scalars:
            world = FakeWorld(ranks, torch=name == "torch")
            what = f"all_reduce of a scalar of {name}, {ranks} ranks"
            show(what, "ms", lambda world=world, x=x: all_reduce(world, x), repeats, 1e3)
    show("a deadlock of four ranks, from start to report", "ms", deadlock, repeats, 1e3)
    on_fake_ranks()  # Imports the library, so that its import is not timed.
    pairs = [(on_fake_ranks(), on_processes()) for _ in range(repeats)]
    spread("a training on two fake ranks", "s", [fake for fake, _ in pairs])
    spread("the same on two gloo processes", "s", [real for _, real in pairs])
    spread("gloo processes / fake ranks", "times", [real / fake for fake, real in pairs])


if __name__ == "__main__":
    main()
