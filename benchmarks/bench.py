"""Prints the measurements of docs/speed.md, with the machine's name: `make bench`.

It takes hours, on an otherwise idle machine. `--quick` measures each thing once
and briefly, to see that all of it works.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
TIMEOUT = 2 * 3600
"""Seconds for one script."""

SCRIPTS = {
    "Steps a second": (
        "speed.py --ranks 1 2 4 --num-envs 64 512 --rounds 3 --iterations 8",
        "speed.py --ranks 1 2 --num-envs 64 --rounds 1 --iterations 5",
    ),
    "Steps a second of many environments": (
        "speed.py --ranks 1 2 4 --num-envs 4096 --rounds 2 --iterations 5",
        "speed.py --library rsl_rl --ranks 2 --num-envs 4096 --rounds 1 --iterations 2",
    ),
    "One average of gradients": ("sync.py", "sync.py --megabytes 0.1 --backend gloo"),
    "Stepping": (
        "stepping.py",
        "stepping.py --task rltrain/CartPoleContinuous-v1 envpool/CartPole-v1 --num-envs 64",
    ),
    "Start": (
        "startup.py --ranks 1 2 4 8 --rounds 3",
        "startup.py --ranks 2 --rounds 1 --library rsl_rl",
    ),
}
"""By heading, the script with its arguments, and with those of --quick."""

PACKAGES = ("torch", "rl_games", "rsl-rl-lib", "skrl", "mpi4py")
COMMANDS = ("--help", "plugins", "tasks", "--library rsl_rl --distributed --dry-run")


def machine(names: Sequence[str] = PACKAGES) -> str:
    """Return what the figures depend on, with the versions of these packages."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "?")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    load = os.getloadavg()[0]
    return (
        f"{platform.node()}: {os.cpu_count()} cores of {model}, load {load:.1f} at the start; "
        f"Python {platform.python_version()}, {versions}; {time.strftime('%Y-%m-%d')}"
    )


def command_line(rounds: int) -> None:
    """Print what rltrain's own commands take."""
    print("| command | seconds |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for words in COMMANDS:
            took = []
            for _ in range(rounds):
                before = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "rltrain", *words.split()],
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                    timeout=TIMEOUT,
                    check=True,
                )
                took.append(time.perf_counter() - before)
            spread = f"({min(took):.2f} to {max(took):.2f})"
            print(f"| `rltrain {words}` | {statistics.median(took):.2f} {spread} |", flush=True)


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    print(machine())
    failed = []
    for heading, lines in SCRIPTS.items():
        line = lines[given.quick]
        print(f"\n## {heading}\n\n`python benchmarks/{line}`\n", flush=True)
        script, *words = line.split()
        run = [sys.executable, str(HERE / script), *words]
        if code := subprocess.run(run, timeout=TIMEOUT, check=False).returncode:
            failed.append(f"{line}: exit status {code}")
    print("\n## Commands\n", flush=True)
    command_line(1 if given.quick else 5)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
