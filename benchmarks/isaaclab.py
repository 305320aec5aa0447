"""Times Isaac Lab's own training next to rltrain's: one task, the same options, seed and sizes.

    python benchmarks/isaaclab.py
    python benchmarks/isaaclab.py --library rsl_rl --rounds 1 --iterations 10

Needs Isaac Lab 3 with Newton and its assets, the libraries, TensorBoard, and rltrain's plugins;
Isaac Lab's own code for rl_games also needs gym. All of it runs on the CPU. A round trains once in
each way, as a command of its own and with the seed of the round. The table has the medians of the
rounds, with the smallest and the largest: the seconds of the command, those until its first
iteration was done, the frames a second after that, and the return at the end.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import machine

TASK = "Isaac-Cartpole-Direct"
PACKAGES = ("isaaclab", "newton", "torch", "rl_games", "rsl-rl-lib", "skrl")
TIMEOUT = 1800
"""Seconds for one command."""
THEIRS = "`isaaclab train`"
WAYS = {THEIRS: 0, "rltrain": 1, "rltrain, two ranks": 2}
"""Ways to train, and rltrain's number of ranks."""


class Library(NamedTuple):
    """How Isaac Lab trains with a library, and what that writes for TensorBoard."""

    words: tuple[str, ...]
    """Those without which it asks for a GPU, and mini-batches of the size that rltrain makes."""
    progress: str
    """A value that is written in each iteration."""
    frames: int
    """What a step of it counts: so many frames of each environment; 0 for frames of all."""
    episode_return: str
    ours: tuple[str, ...] = ()
    """What rltrain is told besides."""


LIBRARIES = {
    "rsl_rl": Library(("agent.device=cpu",), "Loss/learning_rate", 16, "Train/mean_reward"),
    "rl_games": Library(
        (
            "agent.params.config.device=cpu",
            "agent.params.config.device_name=cpu",
            "agent.params.config.minibatch_size={rows}",
        ),
        "info/epochs",
        0,
        "rewards/iter",
        ("--scale-minibatches",),
    ),
    "skrl": Library((), "Loss / Policy loss", 1, "Reward / Total reward (mean)"),
}


class Run(NamedTuple):
    """What one command did; times in seconds."""

    wall: float
    first: float
    fps: float
    episode_return: float


def command(way: str, library: str, num_envs: int, iterations: int, seed: int) -> list[str]:
    """Return the words that train in one way."""
    ranks = WAYS[way]
    sizes = [f"--num_envs={num_envs // max(ranks, 1)}", f"--max_iterations={iterations}"]
    words = ["--rl_library", library, "--task", TASK, "--device", "cpu"]
    words += ["--seed", str(seed), *sizes]
    if not ranks:
        theirs = [word.format(rows=num_envs * 4) for word in LIBRARIES[library].words]
        return [sys.executable, "-m", "isaaclab", "train", *words, *theirs]
    words += LIBRARIES[library].ours
    words += ["--distributed", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    return [sys.executable, "-m", "rltrain", "train", *words]


def measure(way: str, library: str, num_envs: int, iterations: int, seed: int) -> Run:
    """Train once, in a folder of its own.

    Raises:
        SystemExit: the command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = command(way, library, num_envs, iterations, seed)
        printed = Path(folder, "printed.txt")
        with printed.open("w") as file:
            begin = time.time()
            done = subprocess.run(
                words,
                cwd=folder,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
            wall = time.time() - begin
        if done.returncode:
            sys.exit(f"{' '.join(words)}\n{printed.read_text()[-3000:]}")
        if WAYS[way]:
            (metrics,) = Path(folder).rglob("metrics.jsonl")
            return _ours(metrics, begin, wall)
        (events,) = Path(folder).rglob("*tfevents*")
        return _theirs(events, LIBRARIES[library], num_envs, begin, wall)


def _ours(metrics: Path, begin: float, wall: float) -> Run:
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    (started,) = [each for each in records if each["record"] == "started"]
    before = datetime.datetime.fromisoformat(started["time"]).timestamp() - begin
    iterations = [each for each in records if each["record"] == "scalars"]
    first, last = iterations[0], iterations[-1]
    fps = (last["frames"] - first["frames"]) / (last["seconds"] - first["seconds"])
    return Run(wall, before + first["seconds"], fps, last["return"])


def _theirs(events: Path, library: Library, num_envs: int, begin: float, wall: float) -> Run:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(events), {"scalars": 0}).Reload()
    progress = found.Scalars(library.progress)
    first, last = progress[0], progress[-1]
    frames = (last.step - first.step) * (library.frames * num_envs or 1)
    fps = frames / (last.wall_time - first.wall_time)
    return Run(wall, first.wall_time - begin, fps, found.Scalars(library.episode_return)[-1].value)


def row(runs: list[Run], theirs: list[Run]) -> Iterator[str]:
    """Yield the cells of one way's row."""
    for name, digits in (("wall", 1), ("first", 1), ("fps", 0), ("episode_return", 2)):
        values = [getattr(run, name) for run in runs]
        middle = statistics.median(values)
        cell = f"{middle:,.{digits}f}"
        if len(values) > 1:
            cell += f" ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
        if name == "wall" and theirs and runs is not theirs:
            cell += f", x {middle / statistics.median(run.wall for run in theirs):.2f}"
        yield cell


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", nargs="+", choices=LIBRARIES, default=[*LIBRARIES])
    parser.add_argument("--way", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--iterations", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    sizes = (given.num_envs, given.iterations)
    print(f"{machine(PACKAGES)}\n{TASK}, {sizes[0]} environments, {sizes[1]} iterations, ", end="")
    print(f"medians of {given.rounds} round(s)\n")
    print("| library | through | wall time | to the first iteration | frames/s after it | return |")
    print("|---|---|---|---|---|---|", flush=True)
    for library in given.library:
        runs: dict[str, list[Run]] = {way: [] for way in given.way}
        for number in range(given.rounds):
            for way in given.way:
                runs[way].append(measure(way, library, *sizes, seed=42 + number))
        for way in given.way:
            cells = " | ".join(row(runs[way], runs.get(THEIRS, [])))
            print(f"| {library} | {way} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
