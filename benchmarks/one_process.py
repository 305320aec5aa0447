"""Frames a second of one process: with the threads that rltrain chooses, and with torch's own.

    python benchmarks/one_process.py [--rounds 3] [--library rsl_rl]

Each library trains the embedded cart-pole with a small and a large network, alone and beside as
many other processes as there are cores. Both ways take turns. The table has the medians of the
rounds, with the smallest and the largest. `benchmarks/threads.py` measures passes alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import machine
from threads import busy

PACKAGES = ("torch", "rl_games", "rsl-rl-lib", "skrl")
LAYERS = {
    "rl_games": ("params.network.mlp.units",),
    "rsl_rl": ("actor.hidden_dims", "critic.hidden_dims"),
    "skrl": ("models.policy.network.0.layers", "models.value.network.0.layers"),
}
NETWORKS = {"64 64": 16, "1024 1024": 4}
"""Units of the layers, and iterations."""
ENVS = 128
TIMEOUT = 600
"""Seconds for one run."""


def fps(library: str, network: str, threads: int | None) -> float:
    """Train once, and return the frames a second after the first iteration."""
    environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if threads is not None:
        environ["OMP_NUM_THREADS"] = str(threads)
    layers = [f"agent.{key}=[{network.replace(' ', ',')}]" for key in LAYERS[library]]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rltrain", "rltrain/CartPoleContinuous-v1"]
        command += ["--library", library, "--num-envs", str(ENVS), "--log-root", folder]
        command += ["--max-iterations", str(NETWORKS[network]), "--device", "cpu", *layers]
        subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, timeout=TIMEOUT, check=True)
        (metrics,) = Path(folder).rglob("metrics.jsonl")
        records = [json.loads(line) for line in metrics.read_text().splitlines()]
    iterations = [each for each in records if each["record"] == "scalars"]
    first, last = iterations[0], iterations[-1]
    return float((last["frames"] - first["frames"]) / (last["seconds"] - first["seconds"]))


@contextmanager
def loaded(others: int) -> Iterator[None]:
    """Let other processes compute."""
    processes = [multiprocessing.Process(target=busy, daemon=True) for _ in range(others)]
    for each in processes:
        each.start()
    try:
        yield
    finally:
        for each in processes:
            each.terminate()


def cell(values: list[float]) -> str:
    """Return median, smallest and largest."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:,.0f} ({least:,.0f} to {most:,.0f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--library", nargs="+", choices=LAYERS, default=[*LAYERS])
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{machine(PACKAGES)}\n{ENVS} environments, medians of {given.rounds} round(s)\n")
    print("| library | network | beside | frames/s, chosen | with a thread for each core | ratio |")
    print("|---|---|---|---|---|---|", flush=True)
    for library in given.library:
        for network in NETWORKS:
            for others in (0, cores):
                chosen, own = [], []
                with loaded(others):
                    for _ in range(given.rounds):
                        chosen.append(fps(library, network, None))
                        own.append(fps(library, network, cores))
                ratio = statistics.median(chosen) / statistics.median(own)
                beside = f"{others} processes" if others else "nothing"
                print(
                    f"| {library} | {network} | {beside} | {cell(chosen)} | {cell(own)} | "
                    f"{ratio:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
