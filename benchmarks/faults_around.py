"""Prints what becomes of faults next to the ranks' steps: at the start, at the end, around a run.

    python benchmarks/faults_around.py
    python benchmarks/faults_around.py --fault "start hangs" "server killed"
    python benchmarks/faults_around.py --rltrain OTHER_CHECKOUT

Each line is a run, or two of them. "as it should" says whether its status and words are what
docs/faults.md promises. A lost mount needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))


HERE = Path(__file__).parent
PATIENCE = 60
"""Seconds after which a command counts as one that never ends."""

TASK = ["--library", "rsl_rl", "--task", "faults_task:Around-v0", "agent.num_steps_per_env=8"]
RUN = [*TASK, "--num-envs", "2", "--max-iterations", "10"]
LONG = [*RUN[:-1], "100000", "--checkpoint-interval", "5"]
TWO = ["--distributed", "--nproc-per-node", "2", "--device", "cpu"]
BOUNDS = ["--hang-timeout", "start=6,step=6,checkpoint=6,end=6"]
MARK = "AROUND_FOLDER"


class Ended(NamedTuple):
    """How a command has ended."""

    status: int | None
    seconds: float
    output: str
    left: int


class Place:
    """A folder, in which commands run with a fault."""

    def __init__(self, sources: str | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="around-"))
        self.temporary, self.logs = self.folder / "tmp", self.folder / "logs"
        self.temporary.mkdir()
        self.logs.mkdir()
        path = filter(None, (str(HERE), sources or os.environ.get("PYTHONPATH")))
        own = {"TMPDIR": str(self.temporary), "PYTHONPATH": os.pathsep.join(path)}
        self.environ = {**os.environ, **own, MARK: str(self.folder), "OMP_NUM_THREADS": "1"}

    def start(
        self, *words: str, how: str = "", before: Sequence[str] = (), **more: str
    ) -> subprocess.Popen[str]:
        """Start a command that trains."""
        output = (self.folder / "output").open("a")
        with output:
            return subprocess.Popen(
                [*before, sys.executable, "-m", "rltrain", *words, "--log-root", str(self.logs)],
                cwd=self.folder,
                env={**self.environ, "AROUND": how, **more},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def wait(self, process: subprocess.Popen[str], since: float) -> Ended:
        """Wait until it ends, and two seconds more."""
        try:
            status: int | None = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - since
        time.sleep(2)
        left = self.left()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)
        return Ended(
            status, seconds, (self.folder / "output").read_text(errors="replace"), len(left)
        )

    def run(self, *words: str, how: str = "", **more: str) -> Ended:
        """Start a command and wait; seconds count from its start."""
        began = time.monotonic()
        return self.wait(self.start(*words, how=how, **more), began)

    def begun(self, process: subprocess.Popen[str]) -> None:
        """Wait for its first checkpoint."""
        deadline = time.monotonic() + PATIENCE
        while not list(self.logs.glob("*/*/*/checkpoints/*.pt")) and process.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)

    def left(self) -> list[int]:
        """Return the processes that were started here and live."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                mark = f"{MARK}={self.folder}".encode()
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def newest(self) -> Path:
        """Return the only run folder."""
        (found,) = (path.parent for path in self.logs.glob("*/*/*/manifest.json"))
        return found

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Fault(NamedTuple):
    """What happens, and what should become of it."""

    name: str
    do: Callable[[Place], Ended]
    statuses: tuple[int, ...]
    says: str
    """A pattern of the words that must be printed; those that must not begin with "!"."""
    needs_root: bool = False


def planted(name: str, statuses: tuple[int, ...], says: str, *words: str) -> Fault:
    """Return a fault of the task, on rank 1 of two."""
    return Fault(name, lambda at: at.run(*RUN, *TWO, *BOUNDS, *words, how=name), statuses, says)


def alone(name: str, statuses: tuple[int, ...], says: str) -> Fault:
    """Return a fault of the task in a single process."""
    return Fault(
        f"{name}, one process", lambda at: at.run(*RUN, *BOUNDS, how=f"{name}@0"), statuses, says
    )


def evaluation(*ranks: str, rank: int) -> Callable[[Place], Ended]:
    """Return what evaluates a policy whose task hangs on one rank."""

    def do(at: Place) -> Ended:
        at.run(*RUN)
        words = ["evaluate", str(at.newest()), *TASK[2:4], "--num-envs", "2", *BOUNDS, *ranks]
        return at.run(*words, how=f"step hangs@{rank}")

    return do


def asked(number: signal.Signals, before: Callable[[Place], object]) -> Callable[[Place], Ended]:
    """Return what asks a run of two ranks to end, after something has happened."""

    def do(at: Place) -> Ended:
        process = at.start(*LONG, *TWO)
        at.begun(process)
        before(at)
        since = time.monotonic()
        process.send_signal(number)
        return at.wait(process, since)

    return do


def kills(at: Place) -> Ended:
    """Kill rank 1 three times, with three restarts, and then ask the run to end."""
    process = at.start(*LONG, *TWO, "--max-restarts", "3")
    at.begun(process)
    since = time.monotonic()
    for _ in range(3):
        killed = (at.folder / "rank_1").read_text()
        os.kill(int(killed), signal.SIGKILL)
        deadline = time.monotonic() + 30
        while (at.folder / "rank_1").read_text() in ("", killed) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(4)
    process.terminate()
    return at.wait(process, since)


def again(at: Place) -> Ended:
    """Remove all temporary files, kill rank 1, and ask the run to end when it continues."""
    process = at.start(*LONG, *TWO, "--max-restarts", "3")
    at.begun(process)
    since = time.monotonic()
    cleaned(at)
    os.kill(int((at.folder / "rank_1").read_text()), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while "Resuming" not in (at.folder / "output").read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(4)
    process.terminate()
    return at.wait(process, since)


def over(at: Place) -> Ended:
    """Let a run end by its own limit, and continue with it."""
    limit = ("--library", "skrl", "--task", TASK[3], "--num-envs", "2", "--target-return", "15")
    at.run(*limit, "--max-iterations", "500", "--run-name", "once")
    return at.run(*limit, "--max-iterations", "500", "--run-name", "once", "--auto-resume")


def unread(at: Place) -> Ended:
    """Close the reader of the output after a line."""
    began = time.monotonic()
    command = f"{sys.executable} -m rltrain {' '.join(RUN)} --log-root {at.logs} | head -1; "
    shell = ["bash", "-c", f"{command} exit ${{PIPESTATUS[0]}}"]
    with (at.folder / "output").open("a") as output:
        process = subprocess.Popen(
            shell, cwd=at.folder, env=at.environ, stdout=output, stderr=output, text=True
        )
    return at.wait(process, began)


def refused(at: Place) -> Ended:
    """Let node 1 of two refuse an option; node 0 must hear of it."""
    began = time.monotonic()
    nodes = ("--nnodes", "2", "--nproc-per-node", "1", "--master-port", "29877", *TWO[3:])
    nodes = ("--distributed", *nodes, "--join-timeout", "40", "--node-rank")
    first = at.start(*RUN, *nodes, "0")
    second = at.start(*RUN, *nodes, "1", "agent.no_such_key=1")
    second.wait(PATIENCE)
    return at.wait(first, began)


@contextlib.contextmanager
def disk(at: Place) -> Iterator[None]:
    """Give the run folders a disk of their own."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(at.logs)]
    subprocess.run(mount, check=True, timeout=10)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at.logs)], timeout=10, check=False, capture_output=True)


def lost(at: Place) -> Ended:
    """Take the disk of the run folders away."""
    with disk(at):
        took = ["umount", "-l", str(at.logs)]
        return asked(signal.SIGTERM, lambda at: subprocess.run(took, timeout=10, check=True))(at)


def cleaned(at: Place) -> None:
    """Remove all temporary files."""
    shutil.rmtree(at.temporary, ignore_errors=True)


FAULTS = [
    planted("start hangs", (1,), r"[Rr]ank 1 hangs.*start=6"),
    planted("end hangs", (1,), r"[Rr]ank 1 hangs.*end=6"),
    alone("start hangs", (1,), r"Timeout \(0:00:06\)!"),
    alone("end hangs", (1,), r"[Rr]ank 0 hangs.*end=6"),
    Fault("evaluate: step hangs", evaluation(rank=0), (1,), r"Rank 0 hangs.*step=6"),
    Fault(
        "evaluate: step hangs, two ranks", evaluation(*TWO, rank=1), (1,), r"Rank 1 hangs.*step=6"
    ),
    alone("thread stays", (0,), r"bridge' was left running"),
    planted("thread stays", (0,), r"bridge' was left running"),
    planted("process stays", (0,), r"viewer' was left running"),
    alone("process stays", (0,), r"viewer' was left running"),
    planted("helper stays", (0,), r"was still there, and is ended.*sleep 1000"),
    planted("rank killed, its helper lives", (137,), r"Rank 1 was killed by SIGKILL"),
    planted("server killed", (1,), r"was killed from outside"),
    planted("rank leaves with 0", (1,), r"Rank 1 exited with code 0"),
    alone("rank leaves with 0", (1,), r"status 0 before its work was done"),
    alone("sys.exit(0)", (1,), r"before (the|its) work was done"),
    alone("exit handler leaves with 0", (0,), r"finished  iteration 10/10"),
    alone("exit handler leaves with 5", (0,), r"finished  iteration 10/10"),
    alone("exit handler hangs", (0,), r"did not end within 30 s: ended"),
    planted("exit handler leaves with 5", (0,), r"finished  iteration 10/10"),
    Fault("SIGHUP", asked(signal.SIGHUP, lambda at: None), (75,), "stopped  it"),
    Fault("rank 1 killed three times, SIGTERM", kills, (75,), "restart 3 of 3"),
    Fault("a target is reached, the run resumed", over, (0,), r"is over: .*target"),
    Fault("no one reads the output", unread, (0,), r"!Traceback"),
    Fault("node 1 refuses an option: node 0", refused, (2,), r"Node 1 .*does not start: "),
    Fault(
        "the log root's disk is lost, SIGTERM",
        lost,
        (74,),
        r"the run folder is gone",
        needs_root=True,
    ),
    Fault("temporary files removed, rank 1 killed", again, (75,), r"from checkpoints/"),
]


def line(fault: Fault, sources: str | None) -> tuple[list[str], str]:
    """Return the cells of a fault's line, and what its command has printed."""
    at = Place(sources)
    try:
        ended = fault.do(at)
    finally:
        at.close()
    pattern = fault.says.removeprefix("!")
    said = bool(re.search(pattern, ended.output)) != fault.says.startswith("!")
    fine = ended.status in fault.statuses and said and not ended.left
    crash = "Traceback" in ended.output and fault.statuses != (1,)
    cells = [
        fault.name,
        f"{ended.seconds:.1f}" if ended.status is not None else f"not in {PATIENCE}",
        str(ended.status) if ended.status is not None else "",
        "yes" if said else "no",
        str(ended.left),
        "yes" if fine and not crash else "NO",
    ]
    return cells, ended.output


def main() -> int:
    """Print the table; return 1 if something was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fault", nargs="*", default=[], help="names of faults")
    parser.add_argument("--rltrain", metavar="PATHS", help="PYTHONPATH of another rltrain")
    parser.add_argument("--hang-timeout", default=BOUNDS[1], help="6 for an older one")
    arguments = parser.parse_args()
    BOUNDS[1] = arguments.hang_timeout
    heads = ["fault", "s to the end", "status", "named", "processes left", "as it should"]
    print("|", " | ".join(heads), "|")
    print("|", " | ".join("---" for _ in heads), "|")
    wrong = 0
    for fault in FAULTS:
        if arguments.fault and fault.name not in arguments.fault:
            continue
        if fault.needs_root and os.geteuid() != 0:
            continue
        cells, output = line(fault, arguments.rltrain)
        print("|", " | ".join(cells), "|", flush=True)
        if cells[-1] == "NO":
            wrong += 1
            print(output[-2000:], file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
