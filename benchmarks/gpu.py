"""Measures rltrain's overhead on a GPU over each library's own run with the same options.

    python benchmarks/cuda.py
    python benchmarks/cuda.py --library rsl_rl --num-envs 16384 --repeats 5
    python benchmarks/cuda.py --device cpu --num-envs 64 --iterations 6 --repeats 1

`cuda.py` only starts this script, because a module `cuda` on the path hides NVIDIA's from torch.

Every run trains the embedded cart-pole in its own processes. The kinds of runs alternate. A run's
time is the median over its iterations, without the first ones; the table shows the median over
runs, with the lowest and the highest. "native" is the library's own runner, agent and log;
"rltrain" the same training through rltrain in one process; "one rank" a process group of one rank
(NCCL); "two ranks" are two gloo ranks on one GPU, each with half of the environments. Waits and
launches are those of one iteration, counted in a separate run: warnings of torch's sync debug mode,
and kernel launches in torch's profiler. Most of a run's time is its start, so a library takes
several minutes. Each run's median goes to stderr too, at once. The last command tests the script on
the CPU, where no kernels are launched.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from benchmarks.alone import LIBRARIES, train, waits
from benchmarks.ranks import on_ranks

KINDS = {"native": ("native", 1), "rltrain": ("rltrain", 1), "one rank": ("rank", 1)}
KINDS["two ranks"] = ("rank", 2)
"""The kinds of runs by name in the table: how a process trains, and the number of processes."""

WARM = 3
"""Iterations in which memory is allocated and programs are compiled."""

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "hipLaunchKernel")
"""Prefixes of events that launch kernels, such as cudaLaunchKernelExC and cuLaunchKernelEx."""


class Run(NamedTuple):
    """The settings of a run, for each of its processes."""

    library: str
    device: str
    num_envs: int
    iterations: int


def timed(how: str, run: Run, folder: str) -> dict[str, Any]:
    """Run in a process; return the time of each iteration, in s."""
    times: list[float] = []

    def lap() -> None:
        if run.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter())

    return _error_of(lambda: _train(how, run, folder, lap)) or {
        "times": [after - before for before, after in itertools.pairwise(times)]
    }


def counted(how: str, run: Run, folder: str) -> dict[str, Any]:
    """Run in a process; return the waits and launches of its last complete iteration."""
    with waits(run.device) as found:
        failed = _error_of(lambda: _train(how, run, folder, found.lap))
    if failed:
        return failed
    launches = None if run.device == "cpu" else _launches(how, run, folder)
    return {"waits": sum(found.iteration.values()), "launches": launches}


def _launches(how: str, run: Run, folder: str) -> int:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    profile, laps = torch.profiler.profile(activities=activities), [0]

    def lap() -> None:
        laps[0] += 1
        if laps[0] == run.iterations - 1:
            profile.start()
        elif laps[0] == run.iterations:
            torch.cuda.synchronize()
            profile.stop()

    _train(how, run, folder, lap)
    return sum(event.name.startswith(LAUNCHES) for event in profile.events() or ())


def _train(how: str, run: Run, folder: str, lap: Callable[[], None]) -> None:
    device = f"{run.device}:0" if how == "native" and run.device != "cpu" else run.device
    # The time of an iteration must not include saving checkpoints.
    agent = {"agent.experiment": {"checkpoint_interval": 0}} if run.library == "skrl" else {}
    train(how, run.library, device, run.num_envs, run.iterations, folder, lap, agent)


def _error_of(work: Callable[[], None]) -> dict[str, Any]:
    try:
        work()
    except Exception:
        return {"error": traceback.format_exc()}
    return {}


def first_rank(function: Callable[..., Any], how: str, run: Run) -> dict[str, Any]:
    """Return the result of a run's first process.

    Raises:
        SystemExit: the run failed.
    """
    kind, ranks = KINDS[how]
    ends = on_ranks(function, ranks, kind, run._replace(num_envs=run.num_envs // ranks))
    failed = ends if isinstance(ends, str) else next((x["error"] for x in ends if "error" in x), "")
    if failed:
        sys.exit(f"{run.library}, {how}: {failed}")
    return dict(ends[0])  # type: ignore[arg-type]


def measure(run: Run, repeats: int) -> None:
    """Print a library's rows."""
    medians: dict[str, list[float]] = {how: [] for how in KINDS}
    for _ in range(repeats):
        for how in KINDS:
            median = statistics.median(first_rank(timed, how, run)["times"][WARM - 1 :])
            medians[how].append(median)
            print(f"{run.library}, {how}: {1e3 * median:.2f} ms", file=sys.stderr, flush=True)
    base = statistics.median(medians["native"])
    for how, seconds in medians.items():
        counts = first_rank(counted, how, run._replace(iterations=WARM + 2))
        middle = statistics.median(seconds)
        launches = "-" if counts["launches"] is None else counts["launches"]
        print(
            f"| {run.library} | {how} | {1e3 * middle:.2f} "
            f"({1e3 * min(seconds):.2f}..{1e3 * max(seconds):.2f}) | {middle / base:.2f} | "
            f"{counts['waits']} | {launches} |",
            flush=True,
        )


def main() -> None:
    """Print the machine and the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.iterations < WARM + 2:
        parser.error(f"--iterations {arguments.iterations}: give at least {WARM + 2}.")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "benchmarks/cuda.py: no GPU is visible to torch "
            f"{torch.__version__}. To try the script without a GPU: --device cpu --num-envs 64."
        )
    name = platform.processor() or platform.machine()
    if arguments.device == "cuda":
        name = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    packages = ("torch", "rl-games", "rsl-rl-lib", "skrl")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    print(f"{datetime.date.today()}: {name}; Python {platform.python_version()}, {versions}")
    print(f"{arguments.num_envs} environments, {arguments.iterations} iterations per run, ", end="")
    print(f"{arguments.repeats} runs\n")
    print("| library | run | iteration, ms (lowest..highest) | native = 1 | waits | launches |")
    print("|---|---|---|---|---|---|", flush=True)
    for library in arguments.library or LIBRARIES:
        run = Run(library, arguments.device, arguments.num_envs, arguments.iterations)
        measure(run, arguments.repeats)
