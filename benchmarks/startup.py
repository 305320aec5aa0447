"""Measures how long training takes to start: from Enter to the end of the first iteration.

    python benchmarks/startup.py
    python benchmarks/startup.py --library rsl_rl --ranks 2 4 8 --rounds 5
    python benchmarks/startup.py --library rsl_rl --ranks 2 --trace startup.json

"native" is the library's own runner and agent, started by torchrun (see `alone.py`); "rltrain" is
the command. Both train the embedded cart-pole on the CPU, with gloo; they take turns, round after
round. The memory is that of all processes at the end of the first iteration, with shared pages
counted once. `--trace` starts rltrain once, and writes what its processes import, and when, to a
file that https://ui.perfetto.dev opens.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
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


def begin(way: str, library: str, ranks: int, variables: Mapping[str, str] = os.environ) -> Start:
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
            env=dict(variables),
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


def traced(library: str, ranks: int, file: Path) -> None:
    """Start rltrain once, and write what its processes import."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(__file__).with_name("imports_traced.py"), f"{folder}/sitecustomize.py")
        paths = filter(None, [folder, os.environ.get("PYTHONPATH")])
        variables = {"PYTHONPATH": os.pathsep.join(paths), "STARTUP_TRACE": folder}
        seconds = begin("rltrain", library, ranks, {**os.environ, **variables}).seconds
        events = [
            json.loads(line)
            for path in sorted(Path(folder).glob("*.jsonl"))
            for line in path.read_text().splitlines()
        ]
    file.write_text(json.dumps({"traceEvents": events}))
    print(f"{seconds:.1f} s, traced; the imports that take longest, one after the other:\n")
    origin = min(event["ts"] for event in events if "ts" in event)
    print("| process | begins (s) | what | takes (s) |\n|---|---|---|---|")
    for event in sorted((each for each in events if "ts" in each), key=lambda each: each["ts"]):
        if event.get("dur", 1e9) > 2e5:
            took = f"{event['dur'] / 1e6:.2f}" if "dur" in event else ""
            begins = f"{(event['ts'] - origin) / 1e6:.2f}"
            print(f"| {event['pid']} | {begins} | {event['name']} | {took} |")


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
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        return native_rank(*given.rank)
    if given.trace:
        return traced(given.library[0], given.ranks[0], given.trace)
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
