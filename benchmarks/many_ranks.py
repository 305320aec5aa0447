"""Seconds and memory of a run with many ranks on one machine, each with two tiny environments.

It starts `rltrain --distributed` for a doubling number of ranks, waits for its end, and samples
the memory of its processes meanwhile. What a rank costs should not depend on how many there are:
everything that grows with their square would show here.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIMEOUT = 1200
"""Seconds for one run."""

PERIOD = 0.5
"""Seconds between two samples of memory."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--library", default="rsl_rl")
    parser.add_argument("--most", type=int, default=64, help="largest number of ranks")
    arguments = parser.parse_args()
    print(
        "| ranks | seconds | seconds per rank | memory (MiB) | memory per rank (MiB) | log (KiB) |"
    )
    print("|---|---|---|---|---|---|")
    ranks = 1
    while ranks <= arguments.most:
        seconds, memory, logs = measure(arguments.library, ranks)
        print(
            f"| {ranks} | {seconds:.0f} | {seconds / ranks:.1f} | {memory:.0f} | "
            f"{memory / ranks:.0f} | {logs / ranks:.0f} |",
            flush=True,
        )
        ranks *= 2


def measure(library: str, ranks: int) -> tuple[float, float, float]:
    """Train two iterations.

    Returns:
        Seconds, the largest sum of the processes' memory in MiB, and the size of all logs in KiB.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "rltrain", "--library", library, "--device", "cpu"]
        words += ["--distributed", "--nproc-per-node", str(ranks), "--num-envs", "2"]
        words += ["--max-iterations", "2", "--log-root", folder, "--writer", "console"]
        start, most = time.monotonic(), 0.0
        output = Path(folder, "output.txt")
        with output.open("w") as file:
            process = subprocess.Popen(
                words, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
            while process.poll() is None:
                if time.monotonic() - start > TIMEOUT:
                    os.killpg(process.pid, 9)
                    process.wait()
                    raise SystemExit(f"{ranks} ranks: not ended within {TIMEOUT} s")
                most = max(most, memory_of(process.pid))
                time.sleep(PERIOD)
        if process.returncode:
            raise SystemExit(f"{ranks} ranks: {output.read_text()[-4000:]}")
        logs = sum(path.stat().st_size for path in Path(folder).rglob("rank_*.log"))
        return time.monotonic() - start, most, logs / 1024


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


if __name__ == "__main__":
    main()
