"""Measures rltrain's overhead on a GPU over each library's own run with the same options.

    python benchmarks/cuda.py --output cuda.jsonl
    python benchmarks/cuda.py --library rsl_rl --num-envs 16384 --repeats 5 --seconds 900
    python benchmarks/cuda.py --device cpu --tiny

`cuda.py` only starts this script, because a module `cuda` on the path hides NVIDIA's from torch.

Every run trains in its own process. The kinds of runs alternate. A run's time is the median over
its iterations, without the first ones; the table shows the median over runs. "native" is the
library's own runner, agent and log; "rltrain" the same training through rltrain in one process;
"one rank" a process group of one rank (NCCL). Waits and launches are those of one iteration,
counted in a separate run: warnings of torch's sync debug mode, and kernel launches in torch's
profiler.

In order of worth: the embedded cart-pole with each library; mjlab's cart-pole and velocity task, if
mjlab is installed; what counting, NaN checks and pulses take of a step; the time to a return beside
native's. What does not begin within `--seconds` is named and left out. Each result is a line of
JSON in `--output` at once. The last command tries the script on the CPU, where no kernels are
launched.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, TextIO

import torch
from benchmarks.alone import LIBRARIES
from benchmarks.gpu_runs import Run, cost, counted, reached, timed
from benchmarks.ranks import on_ranks

KINDS = {"native": "native", "rltrain": "rltrain", "one rank": "rank"}
"""The kinds of runs by name in the table: how a process trains."""

MJLAB = ("Mjlab-Cartpole-Balance", "Mjlab-Velocity-Flat-Unitree-Go1")

WARM = 3
"""Iterations in which memory is allocated and programs are compiled."""

TARGET = 400.0
"""The mean return of the cart-pole at which the time is taken."""

PATIENCE = 240
"""Seconds for one process."""


class Session:
    """What is measured until the time is over, and where it is written."""

    def __init__(self, seconds: float, repeats: int, output: TextIO | None) -> None:
        """Begin now."""
        self._end, self.repeats, self._output = time.monotonic() + seconds, repeats, output
        self.left_out: list[str] = []
        self.failed = 0

    def write(self, **found: Any) -> None:
        """Write a line of JSON, and show it."""
        line = json.dumps(found)
        print(line, file=sys.stderr, flush=True)
        if self._output is not None:
            print(line, file=self._output, flush=True)

    def ask(self, what: str, function: Callable[..., Any], how: str, run: Run, *more: Any) -> Any:
        """Return the result of a process; None if it failed, or there is no time left for it."""
        name = f"{run.library} on {run.task}, {run.num_envs} environments, {how}: {what}"
        left = self._end - time.monotonic()
        if left <= 0:
            self.left_out.append(name)
            return None
        ends = on_ranks(function, 1, KINDS[how], run, *more, timeout=min(PATIENCE, left + 60))
        error = ends if isinstance(ends, str) else ends[0].get("error")
        about = {"run": how, "measured": what, **run._asdict()}
        if error:
            self.failed += 1
            self.write(**about, error=error.strip().splitlines()[-1])
            return None
        self.write(**about, **ends[0])  # type: ignore[arg-type]
        return ends[0]

    def compare(self, run: Run) -> Iterator[str]:
        """Measure the kinds of runs in turn; yield rows of the table."""
        medians: dict[str, list[float]] = {how: [] for how in KINDS}
        memory: dict[str, float] = {}
        for _ in range(self.repeats):
            for how in KINDS:
                found = self.ask("times", timed, how, run)
                if found is not None:
                    medians[how].append(statistics.median(found["times"][WARM - 1 :]))
                    memory[how] = found["memory"]
        for how, seconds in medians.items():
            if not seconds or not medians["native"]:
                continue
            counts = self.ask("counts", counted, how, run._replace(iterations=WARM + 2)) or {}
            median, native = statistics.median(seconds), statistics.median(medians["native"])
            waits, launches = counts.get("waits", "-"), counts.get("launches") or "-"
            yield (
                f"| {run.library} | {run.task} | {run.num_envs} | {how} | {1e3 * median:.2f} "
                f"({1e3 * min(seconds):.2f}..{1e3 * max(seconds):.2f}) | {native / median:.3f} | "
                f"{waits} | {launches} | {memory[how]:.0f} |"
            )


def main() -> None:
    """Print the machine and the table."""
    arguments = _arguments()
    name = platform.processor() or platform.machine()
    if arguments.device == "cuda":
        name = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    packages = ("torch", "rl-games", "rsl-rl-lib", "skrl")
    versions = {package: version(package) for package in packages}
    output = open(arguments.output, "a") if arguments.output else None  # noqa: SIM115
    session = Session(arguments.seconds, arguments.repeats, output)
    about = {"date": str(datetime.date.today()), "machine": name, "versions": versions}
    session.write(**about, python=platform.python_version())
    print(
        "| library | task | environments | run | iteration, ms | speed, native = 1 | waits |",
        end="",
    )
    print(" launches | memory, MB |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    runs = list(_runs(arguments))
    for run in runs:
        for row in session.compare(run):
            print(row, flush=True)
    session.ask("cost of a step, us", cost, "rltrain", runs[0]._replace(iterations=WARM))
    for library in arguments.library or LIBRARIES:
        long = Run(library, arguments.device, runs[0].num_envs, arguments.until)
        for how in ("native", "rltrain"):
            session.ask(f"time to a return of {TARGET:g}", reached, how, long, TARGET)
    for name in session.left_out:
        print(f"left out, for want of time: {name}")
    if session.failed:
        sys.exit(f"{session.failed} runs failed")


def _runs(arguments: argparse.Namespace) -> Iterator[Run]:
    """Yield what is compared, in order of worth."""
    sizes = arguments.num_envs
    for num_envs in sizes:
        for library in arguments.library or LIBRARIES:
            yield Run(library, arguments.device, num_envs, arguments.iterations)
    if importlib.util.find_spec("mjlab") is not None and "rsl_rl" in (
        arguments.library or LIBRARIES
    ):
        for task in MJLAB:
            for num_envs in sizes:
                yield Run("rsl_rl", arguments.device, num_envs, arguments.iterations, task)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--until", type=int, default=100, help="iterations to a return at most")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=360, help="then nothing more begins")
    parser.add_argument("--output", help="a file for lines of JSON")
    parser.add_argument("--tiny", action="store_true", help="a few environments and iterations")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.num_envs, arguments.iterations, arguments.repeats = [16], WARM + 2, 1
        arguments.until = WARM
    if arguments.iterations < WARM + 2:
        parser.error(f"--iterations {arguments.iterations}: give at least {WARM + 2}.")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "benchmarks/cuda.py: no GPU is visible to torch "
            f"{torch.__version__}. To try the script without a GPU: --device cpu --tiny."
        )
    return arguments
