"""Prints what faults cost: who is named, how soon, how a run ends, and what is lost.

    python benchmarks/faults.py
    python benchmarks/faults.py --row "rsl_rl" "rsl_rl native" --fault sleep kill
    python benchmarks/faults.py --random 100

Each line of the table is a run on two gloo ranks, with a fault on rank 1 in an iteration:

- seconds to the name: until the console names the rank, or says what was lost;
- seconds to the end: of the command, and its exit status;
- processes and files left: 3 seconds later; files in the temporary folder, without torch's own;
- lost: iterations between the newest checkpoint and the fault.

"native" is the library's own code under torchrun, "torchrun" is rltrain's ranks under torchrun.
With --random, one run is hit by as many faults at random times on random ranks. It ends with the
parameters of an undisturbed run, bit for bit, or this command fails. A full disk needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from faults_planted import COMMITTED, FOLDER, Fault, install

INTERVAL = 5
"""Iterations between checkpoints."""

HANG = 10
"""The time-out of hangs, in seconds."""

PATIENCE = 60
"""Seconds after which a run counts as one that never ends."""

TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
START = ["--distributed", "--nproc-per-node", "2"]
HERE = Path(__file__).parent
PATHS = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


class Row(NamedTuple):
    """A way to run."""

    name: str
    command: list[str]
    native: bool = False
    before: Sequence[str] = ()
    """Words before Python's, of what starts the command."""
    folder: Path | None = None
    """Where it runs, if not in a new folder. Processes that know it beforehand do not count."""


ROWS = [
    Row("rsl_rl", ["-m", "rltrain", "--library", "rsl_rl", *START]),
    Row("rl_games", ["-m", "rltrain", "--library", "rl_games", *START]),
    Row("skrl", ["-m", "rltrain", "--library", "skrl", *START]),
    Row("skrl jax", ["-m", "rltrain", "--library", "skrl", "--framework", "jax", *START]),
    Row("rsl_rl torchrun", [*TORCHRUN, "-m", "rltrain", "--library", "rsl_rl", "--distributed"]),
    Row("rsl_rl native", [*TORCHRUN, str(HERE / "faults_planted.py"), "rsl_rl"], native=True),
]

LATER: dict[str, Callable[[Run], object]] = {
    "Ctrl-C": lambda run: run.process.send_signal(signal.SIGINT),
    "SIGTERM": lambda run: run.process.send_signal(signal.SIGTERM),
    "SIGKILL": lambda run: run.process.send_signal(signal.SIGKILL),
}
"""Faults of the command itself, while its ranks train."""

IN_STEP = ("raise", "exit", "zero", "helper", "kill", "nan", "sleep", "spin", "stop", "disk")
"""Faults of rank 1, in a step of its environment. After "helper", a copy of the rank that leaves by
sys.exit(3), the run is to finish."""

NAMED = re.compile(
    r"[Nn]ode 1\b|[Rr]ank 1 (failed|hangs|was killed|exited)|of rank 1\b|on rank 1\b|"
    r"rank +: 1 |rank 1: |"
    r"cannot be written|not written|could not be (saved|written)|ending after this iteration"
)


class Run:
    """A command in a folder of its own."""

    def __init__(
        self, folder: Path, command: list[str], plan: list[Fault], before: Sequence[str] = ()
    ) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self._others = set(knowing(folder))
        self.lines: list[tuple[float, str]] = []
        (folder / "tmp").mkdir(exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        path = os.pathsep.join([str(install(folder, plan)), str(HERE), *PATHS])
        own = {FOLDER: str(folder), "PYTHONPATH": path, "TMPDIR": str(folder / "tmp")}
        self.process = subprocess.Popen(
            [*before, sys.executable, *command],
            cwd=folder,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append((time.time(), line.rstrip()))

    def wait(self, seconds: float) -> int | None:
        """Return the exit status, or None if the run does not end."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(3)
        return self.process.returncode

    def left(self) -> list[int]:
        """Return the processes of the run that are there."""
        return [pid for pid in knowing(self.folder) if pid not in self._others]

    def end(self) -> None:
        """End what is left."""
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)

    def checkpoint(self) -> int:
        """Return the iteration of the newest checkpoint."""
        from rltrain.storage.checkpoint import saved_checkpoints

        runs = [path.parent for path in self.logs.glob("*/*/*/checkpoints.json")]
        saved = [entry for run in runs for entry in saved_checkpoints(run, print)]
        return max((entry["iteration"] or 0 for entry in saved), default=0)

    def native_checkpoint(self) -> int:
        """Return the iteration of the newest checkpoint that rsl_rl itself has written."""
        saved = (path.stem.removeprefix("model_") for path in self.logs.rglob("model_*.pt"))
        return max(map(int, saved), default=0)


def knowing(folder: Path) -> list[int]:
    """Return the processes that have the variable with this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{FOLDER}={folder}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def small_disk(folder: Path, wanted: bool) -> Iterator[None]:
    """Give the run folders a disk of their own."""
    folder.mkdir(parents=True)
    if wanted:
        mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
        subprocess.run(mount, check=True, timeout=10)
    try:
        yield
    finally:
        if wanted:
            subprocess.run(["umount", "-l", str(folder)], check=True, timeout=10)


def measure(row: Row, fault: str, folder: Path) -> list[str]:
    """Run a row with a fault, and return the cells of its line."""
    how = fault if fault in IN_STEP else "nothing"
    ours = ["--observer", "planted", "--num-envs", "8", "--max-iterations", "60"]
    ours += ["--checkpoint-interval", str(INTERVAL), "--hang-timeout", str(HANG)]
    more = [] if row.native else [*ours, "--log-root", str(folder / "logs")]
    with small_disk(folder / "logs", fault == "disk"):
        run = Run(folder, [*row.command, *more], [(1, 12, 7, how)], row.before)
        try:
            deadline = time.monotonic() + PATIENCE
            while not (folder / COMMITTED).exists():
                if time.monotonic() > deadline or run.wait(0.02) is not None:
                    raise SystemExit("\n".join(line for _, line in run.lines[-30:]))
            planted, iteration = map(float, (folder / COMMITTED).read_text().split())
            if fault in LATER:
                time.sleep(0.2)
                planted = time.time()
                LATER[fault](run)
            status, ended = run.wait(PATIENCE), time.time()
            time.sleep(3)
            left = len(run.left())
            newest = run.native_checkpoint() if row.native else run.checkpoint()
            lost = str(max(0, int(iteration) - newest))
        finally:
            run.end()
    named = [when for when, line in run.lines if when >= planted and NAMED.search(line)]
    files = [path for path in (folder / "tmp").iterdir() if not path.name.startswith("torch")]
    return [
        f"{named[0] - planted:.1f}" if named else "never",
        f"{ended - planted:.1f}" if status is not None else f"not in {PATIENCE}",
        str(status) if status is not None else "",
        str(left),
        str(len(files)),
        lost,
    ]


def table(rows: list[Row], faults: list[str]) -> None:
    """Print the table."""
    heads = ["run", "fault", "s to the name", "s to the end", "status", "processes left"]
    heads += ["files left", "iterations lost"]
    print("|", " | ".join(heads), "|")
    print("|", " | ".join("---" for _ in heads), "|")
    for row in rows:
        for fault in faults:
            if not row.native or fault not in ("nan", "disk"):
                folder = row.folder or Path(tempfile.mkdtemp(prefix="faults-"))
                try:
                    cells = [row.name, fault, *measure(row, fault, folder)]
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                print("|", " | ".join(cells), "|", flush=True)


def drawn(number: int, seed: int) -> list[Fault]:
    """Draw faults of all kinds: one in five iterations, on any rank, in any step."""
    draw, plan = random.Random(seed), []
    kinds = [*(kind for kind in IN_STEP if kind != "disk"), "cleaned"]  # That one ends the run.
    for count in range(number):
        rank, at, kind = draw.randrange(2), 5 * count + draw.randrange(1, 5), draw.choice(kinds)
        plan.append((rank, at, draw.randrange(24), kind))
    return plan


def finished(number: int, plan: list[Fault]) -> tuple[bytes, int, int]:
    """Train to the end; return the parameters, the number of restarts, and what is left."""
    import torch

    words = ["-m", "rltrain", "--library", "rsl_rl", *START, "--observer", "planted"]
    words += ["--num-envs", "4", "--checkpoint-interval", str(INTERVAL), "--keep", "3"]
    words += ["--hang-timeout", "4", "--max-restarts", str(2 * number)]
    words += ["--max-iterations", str(5 * number + 10)]
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        run = Run(folder, [*words, "--log-root", str(folder / "logs")], plan)
        try:
            status = run.wait(60 + 20 * number)
            if status != 0:
                print("\n".join(line for _, line in run.lines[-30:]))
                raise SystemExit(f"It did not finish: {status}")
            time.sleep(3)
            left = len(run.left())
        finally:
            run.end()
        newest = max(folder.glob("logs/*/*/*/checkpoints/*.pt"), key=os.path.getmtime)
        saved = torch.load(newest, weights_only=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    parts = [saved[name] for name in ("actor_state_dict", "critic_state_dict")]
    restarts = sum("restart" in line and " of " in line for _, line in run.lines)
    return b"".join(x.numpy().tobytes() for part in parts for x in part.values()), restarts, left


def hit(number: int, seed: int) -> int:
    """Hit a run with random faults, and compare its end with that of an undisturbed run."""
    began, plan = time.monotonic(), drawn(number, seed)
    parameters, restarts, left = finished(number, plan)
    seconds = time.monotonic() - began
    same = parameters == finished(number, [])[0]
    print(
        f"{number} faults, {restarts} restarts, {seconds:.0f} s: "
        f"finished, {'the same bytes' if same else 'OTHER bytes'} at the end; "
        f"{left} processes left"
    )
    return 0 if same and not left else 1


def main() -> int:
    """Print the table, or hit one run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", nargs="*", default=[], help="names of rows")
    parser.add_argument("--fault", nargs="*", default=[*IN_STEP, *LATER], help="names of faults")
    parser.add_argument("--random", type=int, metavar="N", help="hit one run with N faults")
    parser.add_argument("--seed", type=int, default=0, help="of the random faults")
    arguments = parser.parse_args()
    if arguments.random:
        return hit(arguments.random, arguments.seed)
    table([row for row in ROWS if not arguments.row or row.name in arguments.row], arguments.fault)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
