"""Signals, and what is killed around the ranks: the status is true, and nothing is left running.

Faults of the ranks themselves are in test_planted_faults.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers import wait_for

pytestmark = pytest.mark.slow

SLOW = ["--task", "probe_plugin:Slow-v0", "--num-envs", "2", "--max-iterations", "5000"]
TWO_RANKS = [*SLOW, "--distributed", "--nproc-per-node", "2"]
LIMIT = 15
"""Seconds from the fault to the end of the command."""


def test_a_killed_server_of_ranks_is_named(command):
    run = command(*TWO_RANKS, PLANTED="1:400:kill the server")
    assert run.returncode == 1
    assert "from which this node's ranks are forked, was killed from outside" in run.stderr


@pytest.mark.parametrize(
    ("how", "number", "code"),
    [
        ("one process", signal.SIGTERM, 75),
        ("one process", signal.SIGHUP, 75),
        ("launcher", signal.SIGHUP, 75),
        ("launcher", signal.SIGUSR1, 75),
        ("torchrun", signal.SIGTERM, 1),
    ],
)
def test_a_signal_ends_the_run_after_its_iteration(command, how, number, code):
    joins = how == "torchrun"
    launcher = ("torch.distributed.run", "--nproc_per_node", "2", "-m", "rltrain")
    ranks = {"one process": (), "launcher": TWO_RANKS[6:], "torchrun": ("--distributed",)}[how]
    words = ("--library", "rsl_rl", *SLOW, *ranks)
    process = command.start(*words, launcher=launcher if joins else ())
    ranks = command.ranks(process, 2 if ranks else 1)
    command.checkpoint(process)
    if joins:
        os.kill(ranks[1], number)  # As srun sends it to its tasks.
    elif number == signal.SIGUSR1:
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)  # As a terminal does, and timeout(1).
    run = command.finish(process, timeout=60)  # An iteration takes long on a busy machine.
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr or joins
    assert "\nstopped  iteration" in run.stdout
    again = f"rltrain --resume {os.path.relpath(run.folder, command.folder)} --task {SLOW[1]}"
    again = "the same command with --checkpoint latest" if joins else again
    assert f"to resume    {again}\n" in run.stdout
    (checkpoint,) = json.loads((run.folder / "checkpoints.json").read_text())[-1:]
    assert f"iteration {checkpoint['iteration']:4}/5000" in run.stdout
    assert command.all_gone(process)


def test_a_second_ctrl_c_ends_everything_at_once(command):
    process = command.start(*TWO_RANKS, PLANTED="1:40:hang")
    command.ranks(process, 2)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    run = command.finish(process, timeout=LIMIT)
    assert run.returncode == 130
    assert "interrupted" in run.stderr
    assert "Traceback" not in run.stderr
    assert command.all_gone(process)


def test_a_run_that_nohup_started_outlives_its_terminal(command):
    process = command.start(*TWO_RANKS, before=("nohup",))
    command.ranks(process, 2)
    time.sleep(1)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    process.terminate()
    assert command.finish(process, timeout=LIMIT).returncode == 75


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_nothing_is_left_of_a_run_that_ends_while_it_starts(command, number, code, temporary):
    process = command.start(*TWO_RANKS, TMPDIR=temporary)
    assert "starting 2 rank(s)" in process.stdout.readline()
    server = "from multiprocessing.spawn"
    wait_for(lambda: any(server in words(pid) for pid in command.members(process)))
    process.send_signal(number)
    run = command.finish(process, timeout=LIMIT)
    assert run.returncode == code
    assert "Traceback" not in run.stderr
    assert command.all_gone(process, within=2)  # The server's imports take longer.
    assert number == signal.SIGKILL or not os.listdir(temporary)


@pytest.mark.parametrize("library", [(), ("--library", "skrl", "--framework", "jax")])
def test_what_cleans_up_after_ranks_outlives_a_schedulers_signal(command, library):
    """Ranks would start another one, which knows nothing of them and ends in tracebacks."""
    process = command.start(*library, *TWO_RANKS)
    command.ranks(process, 2)
    (tracker,) = (pid for pid in command.members(process) if "resource_tracker" in words(pid))
    os.kill(tracker, signal.SIGUSR2)  # As it is sent to all processes of a job.
    time.sleep(0.5)
    assert tracker in command.members(process)


def words(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_no_rank_outlives_a_killed_launcher(command):
    process = command.start(*TWO_RANKS)
    ranks = command.ranks(process, 2, timeout=120)
    os.kill(ranks[1], signal.SIGSTOP)  # No Python runs there, as in C code that keeps its lock.
    process.kill()
    process.wait(timeout=5)
    assert command.all_gone(process, within=LIMIT)


def test_an_error_found_by_the_environment_is_shown_without_a_traceback(command):
    run = command(*TWO_RANKS, "env.no_such_option=1")
    assert run.returncode == 2
    assert "no_such_option" in run.stderr
    assert "Traceback" not in run.stderr
