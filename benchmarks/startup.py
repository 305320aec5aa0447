"""Measures how long training takes to start: from Enter to the end of the first iteration.

    python benchmarks/startup.py
    python benchmarks/startup.py --library rsl_rl --ranks 2 4 8 --rounds 5

"native" is the library's own runner and agent, started by torchrun (see `alone.py`); "rltrain" is
the command. Both train the embedded cart-pole on the CPU, with gloo; they take turns, round after
round. The memory is that of all processes at the end of the first iteration, with shared pages
counted once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from alone import LIBRARIES, train

NUM_ENVS = 64
TIMEOUT = 180
"""Seconds for one start."""
OVER = "the first iteration is over"
"""What a rank of "native" prints."""


class Start(NamedTuple):
    """What one start takes."""

    seconds: float
    """To the end of the first iteration."""
    whole: float
    """Seconds to the end of the process, after the second iteration."""
    memory: float
    """In MiB."""


def native_rank(library: str, folder: str) -> None:
    """Train as one rank of torchrun."""
    laps = 0

    def lap() -> None:
        nonlocal laps
        laps += 1
        if laps == 2 and os.environ["RANK"] == "0":
            print(OVER, flush=True)

    train("native rank", library, "cpu", NUM_ENVS, 2, folder, lap)


def command(way: str, library: str, ranks: int, folder: str) -> list[str]:
    """Return the command line that starts two iterations."""
    if way == "native":
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
        return [sys.executable, *torchrun, __file__, "--rank", library, folder]
    words = ["--library", library, "--device", "cpu", "--num-envs", str(NUM_ENVS)]
    words += ["--max-iterations", "2", "--log-root", folder, "--writer", "console"]
    place = ["--distributed", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    return [sys.executable, "-m", "rltrain", *words, *place]


def begin(way: str, library: str, ranks: int) -> Start:
    """Start once.

    Raises:
        SystemExit: the run failed, or had no end.
    """
    sign = OVER if way == "native" else "iteration 1/2"
    seconds, memory, lines = 0.0, 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        entered = time.monotonic()
        process = subprocess.Popen(
            ["timeout", "--kill-after=5", str(TIMEOUT), *command(way, library, ranks, folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith(sign):
                seconds = time.monotonic() - entered
                memory = memory_of(process.pid)
        # The libraries leave their process group to Python's exit, and gloo sometimes aborts there.
        failed = process.wait() and way != "native"
        if failed or not seconds:
            sys.exit(f"{way}, {library}, {ranks} ranks:\n{''.join(lines)[-4000:]}")
        return Start(seconds, time.monotonic() - entered, memory)


def memory_of(process: int) -> float:
    """Return the memory of a process and all below it in MiB; shared pages count once (PSS)."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):  # It has just ended, or is no process.
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(status[1])
    total, family = 0, [process]
    while family:
        parent = family.pop()
        family += [child for child, its in parents.items() if its == parent]
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{parent}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def shown(starts: Sequence[Start], natives: Sequence[Start]) -> list[str]:
    """Return the cells of one way."""
    seconds, whole, memory = zip(*starts, strict=True)
    median = statistics.median
    cells = [f"{median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"]
    cells += [f"{median(whole):.1f}", f"{median(memory):.0f}"]
    if starts is natives:
        return [*cells, "1", "1"]
    ratios = [ours.seconds / other.seconds for ours, other in zip(starts, natives, strict=True)]
    more = median(memory) / median(each.memory for each in natives)
    return [*cells, f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", f"{more:.2f}"]


def main() -> None:
    """Print a row for each library, number of ranks and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", nargs="+", default=LIBRARIES)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        return native_rank(*given.rank)
    print(f"{NUM_ENVS} environments a rank, {os.cpu_count()} cores; seconds from Enter\n")
    print("| library | ranks | way | first iteration | end | memory (MiB) | to native | memory |")
    print(f"|{'---|' * 8}", flush=True)
    for library in given.library:
        for ranks in given.ranks:
            starts: dict[str, list[Start]] = {"native": [], "rltrain": []}
            for _ in range(given.rounds):
                for way, found in starts.items():
                    found.append(begin(way, library, ranks))
            for way, found in starts.items():
                row = [library, str(ranks), way, *shown(found, starts["native"])]
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
