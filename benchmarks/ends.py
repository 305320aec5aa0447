"""Asks commands to end at random moments, and prints their statuses and what was lost.

    python benchmarks/ends.py --requests 40 --seed 3
    python benchmarks/ends.py --requests 40 --command "train, 2 ranks" --cleaned

Each request is one of SIGINT, SIGTERM, SIGHUP and SIGUSR2, to the command's process or to its whole
group, between 0.1 s after the start and the end. What must hold: the status is 130, 143 or 75, or 0
if the command was done; no traceback; no process left; a checkpoint where training had begun. Lost
are the iterations that the last line of metrics has and the newest checkpoint has not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

STATUSES = {
    signal.SIGINT: {130},
    signal.SIGTERM: {143, 75},
    signal.SIGHUP: {75},
    signal.SIGUSR2: {75},
}
PATIENCE = 120
"""Seconds from a request to the end of its command."""

TASK = ["--num-envs", "2", "agent.num_steps_per_env=8"]
TRAIN = ["--library", "rsl_rl", *TASK, "--max-iterations", "100000"]
RANKS = ["--distributed", "--nproc-per-node", "2", "--device", "cpu"]


class Row(NamedTuple):
    """A command, and for how many seconds it may run before it is asked to end."""

    name: str
    words: list[str]
    seconds: float
    trains: bool = False


def rows(run: Path) -> list[Row]:
    """Return the commands; those of a policy use the run folder."""
    of_run = [str(run), "--num-envs", "2"]
    return [
        Row("train", TRAIN, 15, trains=True),
        Row("train, 2 ranks", [*TRAIN, *RANKS], 20, trains=True),
        Row("evaluate", ["evaluate", *of_run, "--episodes", "100000"], 12),
        Row("play", ["play", *of_run, "--viewer", "none"], 12),
        Row("export", ["export", str(run)], 10),
        Row("report", ["report", str(run)], 4),
        Row("doctor", ["doctor"], 8),
        Row("tasks", ["tasks"], 3),
        Row("plugins", ["plugins"], 2),
    ]


class Outcome(NamedTuple):
    """How a command has ended."""

    status: int | None
    seconds: float
    output: str
    left: int
    lost: int | None
    """Iterations; None if training had not begun."""

    def wrong(self, number: signal.Signals) -> list[str]:
        """Return what must not be."""
        crash = "Traceback" in self.output or "Fatal Python error" in self.output
        return [
            *([] if self.status in {0, *STATUSES[number]} else [f"status {self.status}"]),
            *(["traceback"] if crash else []),
            *([f"{self.left} processes left"] if self.left else []),
            *([f"{self.lost} iterations lost"] if self.lost else []),
        ]


def ask(row: Row, number: signal.Signals, after: float, group: bool, cleaned: bool) -> Outcome:
    """Start a command, ask it to end, and wait."""
    folder = Path(tempfile.mkdtemp(prefix="ends-"))
    temporary, logs = folder / "tmp", folder / "logs"
    temporary.mkdir()
    log_root = ["--log-root", str(logs)] if row.trains else []
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rltrain", *row.words, *log_root],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        time.sleep(after)
        if cleaned:
            shutil.rmtree(temporary, ignore_errors=True)
        asked = time.monotonic()
        if process.poll() is None:
            (os.killpg if group else os.kill)(process.pid, number)
        try:
            status: int | None = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - asked
        left = members(process.pid)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        text = (folder / "output").read_text(errors="replace")
        return Outcome(status, seconds, text, len(left), lost(logs))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def members(session: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def lost(logs: Path) -> int | None:
    """Return the iterations after the newest checkpoint of the only run; None without any."""
    files = list(logs.glob("*/*/*/metrics.jsonl"))
    if not files:
        return None
    lines = [json.loads(line) for line in files[0].read_text().splitlines()]
    done = max((line.get("iteration") or 0 for line in lines), default=0)
    index = files[0].with_name("checkpoints.json")
    saved = json.loads(index.read_text()) if index.exists() else []
    return done - max((each["iteration"] or 0 for each in saved), default=0)


def trained(folder: Path) -> Path:
    """Train for a moment, and return the run folder."""
    words = [*TRAIN[:-1], "2", "--log-root", str(folder)]
    subprocess.run([sys.executable, "-m", "rltrain", *words], check=True, stdout=subprocess.DEVNULL)
    (manifest,) = folder.rglob("manifest.json")
    return manifest.parent


def main() -> int:
    """Ask, print a line for each request, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--command", nargs="*", default=[], help="names of commands")
    parser.add_argument("--cleaned", action="store_true", help="remove TMPDIR before each request")
    arguments = parser.parse_args()
    draw, wrong = random.Random(arguments.seed), 0
    folder = Path(tempfile.mkdtemp(prefix="ends-run-"))
    try:
        every = rows(trained(folder))
        chosen = [row for row in every if not arguments.command or row.name in arguments.command]
        print("| command | signal | to | after | status | ended in | iterations lost | wrong |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for count in range(arguments.requests):
            row, number = chosen[count % len(chosen)], draw.choice(list(STATUSES))
            after, group = draw.uniform(0.1, row.seconds), draw.random() < 0.5
            outcome = ask(row, number, after, group, arguments.cleaned)
            found = outcome.wrong(number)
            wrong += bool(found)
            cells = [row.name, number.name, "group" if group else "process", f"{after:.1f} s"]
            cells += [str(outcome.status), f"{outcome.seconds:.1f} s"]
            cells += ["" if outcome.lost is None else str(outcome.lost), ", ".join(found)]
            print("|", " | ".join(cells), "|", flush=True)
            if found:
                print(outcome.output[-1500:], file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{arguments.requests} requests, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
