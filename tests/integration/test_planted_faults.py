"""A table of planted faults: what happens to a rank, what the user must see, and the exit status.

`docs/faults.md` promises it. What is not here, other tests of this folder hold: killed servers and
launchers, signals at other moments, evaluations, refusals, machines.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers import free_port, wait_for
from test_killed import end_of
from test_slurm import SUBMIT, TASK_PER_NODE

from rltrain.errors import UsageError
from rltrain.storage.metrics_file import read_metrics
from rltrain_mpi.launcher import mpiexec
from rltrain_mpi.plugin import MpiOptions

pytestmark = pytest.mark.slow

ONE = ("--library", "rsl_rl")
TWO = ("--distributed", "--nproc-per-node", "2", "--device", "cpu")
RSL_RL = (*ONE, *TWO)
RL_GAMES = ("--library", "rl_games", *TWO)
SKRL = ("--library", "skrl", *TWO)
JAX = (*SKRL, "--framework", "jax")
JOINED = (*ONE, "--distributed", "--device", "cpu")
TORCHRUN = ("torch.distributed.run", "--nproc-per-node", "2", "-m", "rltrain")
RESTARTS = ("--max-restarts", "3")
TWICE = (*RSL_RL, "--max-restarts", "2")
STOPPED = r"stopped  iteration +{}/20"
FINISHED = "finished  iteration 20/20"
RUN = ("--observer", "planted", "--num-envs", "8", "--checkpoint-interval", "5")
PLANTED = Path(__file__).with_name("planted.py").read_text()
HANGS = r"[Rr]ank {} hangs, without progress for .*{}=6"
LINES = (
    r".* rank 1 sleeps while stepping the environment, in .*, at .*planted\.py:.*\n"
    r"  rank 0 waits in collective.*\nThe stacks of all threads: .*hang\.txt$"
)
LAST = r"Rank 1 failed[\s\S]*ValueError: planted.*\s*\Z"


ALONE = ("killed, helper stays",)
"""One fault, and not one after the other."""
HARMLESS = ["raise", "exit 5", "exit 0", "helper fails", "killed", "NaN", "sleep", "spin"]
HARMLESS += ["stopped", "temporary files removed"]
"""Faults that a run with restarts survives."""


class Row(NamedTuple):
    """A fault in iteration 13 of rank 1 (or 0 of one), and what becomes of the run."""

    fault: str
    status: int | None
    """None for any but 0, where it is chance which rank's mpiexec hears of first."""
    says: str
    """A pattern of what is printed."""
    words: tuple[str, ...] = RSL_RL
    when: str = "12.7"
    """Iterations count from 0, and a checkpoint is saved in every fifth."""
    kept: int = 10
    """The iteration of the newest checkpoint, at least."""
    by: str = ""
    """What starts the ranks, if not the command."""

    @property
    def name(self) -> str:
        how = f"by {self.by}" if self.by else " ".join(self.words[1:]).replace(" ".join(TWO), "x 2")
        return f"{self.fault}, {self.when}, {how}"


TABLE = [
    # In a step, with each library and framework, and under other launchers.
    *(Row("raise", 1, LAST, words) for words in (RL_GAMES, RSL_RL, SKRL, JAX)),
    Row("raise", 1, r"ValueError: planted.*\s*\Z", ONE),
    Row("exit 0", 1, "Rank 1 exited with code 0"),
    Row("exit 0", 1, "status 0 before its work was done", ONE),
    Row("exit 5", 5, "Rank 1 exited with code 5", RL_GAMES),
    Row("helper fails", 0, FINISHED, kept=20),
    Row("helper fails", 0, FINISHED, ONE, kept=20),
    Row("killed", 137, "Rank 1 was killed by SIGKILL", SKRL),
    Row("killed", 137, "Rank 1 was killed by SIGKILL", JAX),
    Row("NaN", 1, "NaN or infinity in iteration 13: rank 1: rewards", RL_GAMES),
    Row("NaN", 1, "NaN or infinity in iteration 13: rank 1: rewards", JAX),
    Row("sleep", 1, HANGS.format(1, "step") + ".* rank 1 sleeps while", JAX),
    Row("sleep", 1, HANGS.format(1, "step") + LINES),
    Row("sleep", 1, HANGS.format(0, "step"), ONE),
    Row("spin", 1, HANGS.format(1, "step") + ".* rank 1 is busy while", RL_GAMES),
    Row("stopped", 1, HANGS.format(1, "step") + ".* rank 1 is stopped", SKRL),
    Row("stopped", 1, HANGS.format(1, "step") + ".* rank 1 is stopped", by="torchrun"),
    Row("disk is full", 74, "cannot be written"),
    Row("disk is full", 74, "cannot be written", JAX),
    Row("Ctrl-C", 130, STOPPED.format("1[34]"), RL_GAMES, kept=13),
    Row("Ctrl-C", 130, STOPPED.format("1[34]"), JAX, kept=13),
    Row("SIGTERM", 75, STOPPED.format("1[34]"), SKRL, kept=13),
    Row("SIGTERM", 75, STOPPED.format("1[34]"), JAX, kept=13),
    Row("killed", 1, r"rank +: 1 .*\n.*exitcode +: 137", by="torchrun"),
    Row("raise", 1, r"ValueError: planted\nThis is how rank 1 failed\.\n", by="torchrun"),
    Row("NaN", 1, "NaN or infinity in iteration 13: rank 1: rewards", by="torchrun"),
    Row("raise", 1, "ValueError: planted", by="mpiexec"),
    Row("sleep", None, HANGS.format(1, "step"), by="mpiexec"),
    Row("raise", 1, "ValueError: planted", by="srun"),
    Row("exit 5", 5, "Exited with exit code 5", by="srun"),
    Row("killed", 137, "Rank 1 was killed by SIGKILL", by="--launcher slurm"),
    # As a run starts or ends, and around its ranks.
    Row("sleep", 1, HANGS.format(1, "start"), when="start", kept=0),
    Row("sleep", 1, HANGS.format(1, "end"), when="end", kept=20),
    Row("sleep", 1, HANGS.format(0, "start"), ONE, when="start", kept=0),
    Row("sleep", 1, HANGS.format(0, "end"), ONE, when="end", kept=20),
    Row("sys.exit(0)", 1, "before (the|its) work was done", ONE),
    Row("thread stays", 0, "'bridge' was left running", ONE, kept=20),
    Row("thread stays", 0, "'bridge' was left running", kept=20),
    Row("process stays", 0, "'viewer' was left running", ONE, kept=20),
    Row("process stays", 0, "'viewer' was left running", kept=20),
    Row("helper stays", 0, "was still there, and is ended.*sleep 1000", kept=20),
    Row("killed, helper stays", 137, "Rank 1 was killed by SIGKILL"),
    Row("exit handler leaves with 0", 0, FINISHED, ONE, kept=20),
    Row("exit handler leaves with 5", 0, FINISHED, ONE, kept=20),
    Row("exit handler leaves with 5", 0, FINISHED, kept=20),
    Row("exit handler hangs", 0, "did not end within 30 s: ended", ONE, kept=20),
    Row("disk is lost, SIGTERM", 74, "the run folder is gone", kept=0),
    # With restarts.
    Row("raise, raise, raise", 1, "restart 2 of 2: rank 1 failed with " + r"[\s\S]*" + LAST, TWICE),
    Row("killed, killed, killed, SIGTERM", 75, "restart 3 of 3", (*RSL_RL, *RESTARTS), kept=15),
    Row("temporary files removed, killed", 0, FINISHED, (*RSL_RL, *RESTARTS), kept=20),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_planted_fault_ends_as_promised(command, temporary, request, row):
    faults = [row.fault] if row.fault in ALONE else row.fault.split(", ")
    first, _, step = row.when.partition(".")
    whens = [f"{int(first) + n}.{step}" for n in range(len(faults))] if step else [first]
    plan = [(row.words != ONE, when, fault) for when, fault in zip(whens, faults, strict=True)]
    words = (*(JOINED if row.by else row.words), *RUN, "--max-iterations", "20")
    if "=6" in row.says:
        words += ("--hang-timeout", f"{'step' if step else row.when}=6")
    command.install("planted", PLANTED)
    more, variables = started(row.by, request)
    with disk_of_its_own(command.log_root, wanted="disk" in row.fault):
        variables |= {"TMPDIR": temporary, "PLANTED": json.dumps(plan)}
        process = command.start(*words, *more, **variables)
        run = command.finish(process, timeout=240)
        said = run.stdout + run.stderr
        assert run.returncode == row.status or (run.returncode and row.status is None), said
        assert re.search(row.says, said), said
        # A rank that srun has started shows how it noticed that another one had ended.
        assert "Traceback" not in said or row.status in (1, None) or row.by == "srun", said
        assert max(saved(command), default=0) >= row.kept, said
    assert nothing_left(temporary), said
    # Others kill ranks, and one process leaves at once, which leaves it to the next run.
    left = [name for name in os.listdir(temporary) if name.startswith("rltrain-")]
    assert row.by or not left or (row.fault, row.words) == ("exit 0", ONE)
    if "raise" in row.fault and not row.by:
        assert "planted" in (run.folder / f"logs/rank_{int(row.words != ONE)}.log").read_text()
    if "hang.txt" in row.says:
        assert {"== rank 0", "== rank 1"} <= {
            *(run.folder / "logs/hang.txt").read_text().split("\n")
        }


def started(by, request):
    if by == "torchrun":
        return (), {"launcher": TORCHRUN}
    if by == "mpiexec":
        try:
            before = (*mpiexec(MpiOptions()), "-n", "2")
        except UsageError as error:
            pytest.skip(str(error))
        return ("--master-port", str(free_port())), {"before": before}
    if by:
        srun = {"before": TASK_PER_NODE} if by == "srun" else {}
        return () if srun else SUBMIT, {**srun, **request.getfixturevalue("cluster")}
    return (), {}


@contextlib.contextmanager
def disk_of_its_own(folder, wanted):
    folder.mkdir(exist_ok=True)
    if wanted and os.geteuid() != 0:
        pytest.skip("a disk of its own needs root")
    if wanted:
        mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
        subprocess.run(mount, check=True, timeout=10)
    try:
        yield
    finally:
        if wanted:  # Unless it was lost.
            subprocess.run(["umount", "-l", folder], timeout=10, check=False, capture_output=True)


def saved(command):
    (file, *_) = [*command.log_root.glob("*/*/*/checkpoints.json"), None]
    return [each["iteration"] or 0 for each in json.loads(file.read_text())] if file else []


def nothing_left(temporary):
    """Wait until no process is left, whatever its session, that was started so."""
    mark = f"TMPDIR={temporary}".encode()

    def nothing():
        left = []
        for file in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                left += [file] * (mark in file.read_bytes().split(b"\0"))
        return not left

    return wait_for(nothing, 10, what="processes are left")


@pytest.mark.slow
@pytest.mark.timeout(1300)
def test_ten_random_faults_change_nothing(command, temporary):
    """One in five iterations, on any rank, in any step: the end is the same bytes."""
    # By this seed no hang follows removed files: it would not be found.
    draw, plan = random.Random(1), []
    for number in range(10):
        when = f"{5 * number + draw.randrange(1, 5)}.{draw.randrange(24)}"
        plan.append((draw.randrange(2), when, draw.choice(HARMLESS)))
    command.install("planted", PLANTED)
    words = (*RSL_RL, *RUN, "--max-iterations", "60", "--keep", "3")
    words = (*words, "--max-restarts", "20", "--hang-timeout", "step=4")
    ends = []
    for name, faults in ("hit", plan), ("whole", []):
        command.log_root = command.folder / name
        run = command.finish(
            command.start(*words, TMPDIR=temporary, PLANTED=json.dumps(faults)), timeout=600
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert nothing_left(temporary)
        assert ("restart 5 of 20" in run.stdout) == bool(faults)
        ends.append(end_of(command.log_root))
    assert ends[0] == ends[1]


FEW = ("--num-envs", "2", "agent.num_steps_per_env=8", "--device", "cpu")
TRAIN = (*ONE, *FEW, "--max-iterations", "100000")
COMMANDS = {
    "train": (15, TRAIN),
    "train on two ranks": (20, (*TRAIN, *TWO[:3])),
    "evaluate": (12, ("evaluate", "RUN", "--num-envs", "2", "--episodes", "100000")),
    "play": (12, ("play", "RUN", "--num-envs", "2", "--viewer", "none")),
    "export": (10, ("export", "RUN")),
    "report": (4, ("report", "RUN")),
    "doctor": (8, ("doctor",)),
    "tasks": (3, ("tasks",)),
}
"""Within how many seconds from its start a command is asked to end; RUN is a run folder."""
SIGNALS = {
    signal.SIGINT: {130},
    signal.SIGTERM: {143, 75},
    signal.SIGHUP: {75},
    signal.SIGUSR2: {75},
}


@pytest.fixture(scope="module")
def trained(module_command):
    run = module_command("trained")(*ONE, *FEW, "--max-iterations", "2")
    assert run.returncode == 0, run.stderr
    return str(run.folder)


def hears(pid):
    """Return whether Python has begun, and signals wait or are handled."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"Sig(?:Cgt|Blk):\s*(\w+)", status)
    return any(int(mask, 16) >> (signal.SIGUSR2 - 1) & 1 for mask in masks)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_when_it_is_asked_at_any_moment(command, temporary, trained, name):
    seconds, words = COMMANDS[name]
    draw = random.Random(name)
    number, group = draw.choice(list(SIGNALS)), draw.random() < 0.5
    trains = name.startswith("train")
    # `--log-root`, which every command here gets, is one of training.
    before = () if trains else ("bash", "-c", 'exec "${@:1:$#-2}"', "bash")
    words = [trained if word == "RUN" else word for word in words]
    process = command.start(*words, before=before, TMPDIR=temporary, OMP_NUM_THREADS="1")
    wait_for(lambda: hears(process.pid), process=process, what="it does not begin")
    time.sleep(draw.uniform(0.1, seconds))
    if process.poll() is None:
        (os.killpg if group else os.kill)(process.pid, number)
    run = command.finish(process, timeout=120)
    said = run.stdout + run.stderr
    assert run.returncode in {0, *SIGNALS[number]}, (number, said)
    assert not re.search("Traceback|Fatal Python error", said), said
    assert nothing_left(temporary)
    if trains and list(command.log_root.glob("*/*/*/metrics.jsonl")):
        done = [each.iteration for each in read_metrics(run.folder).scalars]
        assert max(done, default=0) == max(saved(command), default=0), said
