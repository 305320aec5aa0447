"""A failure is loud and fast: the traceback last, exit code not 0, nothing left running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers import wait_for

pytestmark = pytest.mark.slow

SLOW = ["--task", "probe_plugin:Slow-v0", "--num-envs", "2", "--max-iterations", "5000"]
TWO_RANKS = [*SLOW, "--distributed", "--nproc-per-node", "2"]
PLANTED = r"step\(\) raised ValueError: planted in one rank's environment"
LIMIT = 15
"""Seconds from the fault to the end of the command."""


def test_sigkill_of_one_rank_ends_the_run(command):
    process = command.start(*TWO_RANKS)
    ranks = command.ranks(process, 2)
    time.sleep(1)
    os.kill(ranks[1], signal.SIGKILL)
    run = command.finish(process, timeout=LIMIT)
    assert run.returncode == 137
    assert "Rank 1 was killed by SIGKILL" in run.stderr
    assert command.all_gone(process)


def test_a_killed_server_of_ranks_is_named(command):
    run = command(*TWO_RANKS, PLANTED="1:400:kill the server")
    assert run.returncode == 1
    assert "from which this node's ranks are forked, was killed from outside" in run.stderr


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_exception_in_one_rank_is_the_last_thing_printed(command, library):
    process = command.start("--library", library, *TWO_RANKS, PLANTED="1:400")
    command.ranks(process, 2)
    run = command.finish(process, timeout=60)
    assert run.returncode == 1
    assert "Rank 1 failed" in run.stderr
    assert re.search(PLANTED, run.stderr.rstrip().splitlines()[-1])
    assert "planted" in (run.folder / "logs" / "rank_1.log").read_text()
    assert command.all_gone(process)


def test_exception_in_one_process_is_shown_with_its_traceback(command):
    run = command(*SLOW, PLANTED="0:400", RANK="0")
    assert run.returncode == 1
    assert re.search(PLANTED, run.stderr.rstrip().splitlines()[-1])
    assert "planted" in (run.folder / "logs" / "rank_0.log").read_text()


@pytest.mark.parametrize(
    ("how", "number", "code"),
    [
        ("one process", signal.SIGTERM, 75),
        ("launcher", signal.SIGINT, 130),
        ("launcher", signal.SIGTERM, 75),
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


FEW = ("agent.num_steps_per_env=8", "--max-iterations", "3")


def test_a_thread_that_a_rank_leaves_keeps_nothing(command):
    words = ("--library", "rsl_rl", *TWO_RANKS, *FEW)
    run = command(*words, PLANTED="1:12:thread")
    assert run.returncode == 0, run.stderr
    assert "was left running, and is not waited for, at " in run.stderr + run.stdout
    assert "\nfinished  iteration 3/3" in run.stdout


@pytest.mark.parametrize(("how", "code"), [("leave", 1), ("helper", 0)])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_status_is_true(command, ranks, how, code, temporary):
    words = TWO_RANKS if ranks == 2 else [*SLOW]
    planted = {"PLANTED": f"{ranks - 1}:12:{how}", **({"RANK": "0"} if ranks == 1 else {})}
    run = command("--library", "rsl_rl", *words, *FEW, TMPDIR=temporary, **planted)
    assert run.returncode == code, run.stderr
    left = [name for name in os.listdir(temporary) if not name.startswith("torchinductor")]
    assert code or not left, "what rsl_rl imports has folders there, also where ranks are forked"
    early = "Rank 1 exited with code 0" if ranks == 2 else "status 0 before its work was done"
    assert (early in run.stderr) == (code == 1)
    assert ("\nfinished  iteration 3/3" in run.stdout) == (code == 0)


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
    """Return the command line of a process."""
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


def test_a_failed_rank_under_torchrun_fails_the_job(command):
    torchrun = ("torch.distributed.run", "--nproc_per_node", "2", "-m", "rltrain")
    process = command.start(*SLOW, "--distributed", launcher=torchrun, PLANTED="1:400")
    run = command.finish(process, timeout=60)
    assert run.returncode != 0
    assert re.search(rf"{PLANTED}.*\)\nThis is how rank 1 failed\.\n", run.stderr)
    assert command.all_gone(process)


def test_an_error_found_by_the_environment_is_shown_without_a_traceback(command):
    run = command(*TWO_RANKS, "env.no_such_option=1")
    assert run.returncode == 2
    assert "no_such_option" in run.stderr
    assert "Traceback" not in run.stderr


def test_ranks_are_restarted_as_often_as_requested(command):
    words = ("--library", "rsl_rl", *TWO_RANKS, "agent.num_steps_per_env=8")
    words = (*words, "--checkpoint-interval", "1", "--max-restarts", "2")
    process = command.start(*words, PLANTED="1:60")
    run = command.finish(process, timeout=120)
    assert run.returncode == 1
    assert re.search(PLANTED, run.stderr.rstrip().splitlines()[-1])
    # Three attempts, in one run folder, each from the last checkpoint.
    story = json.loads((run.folder / "restarts.json").read_text())
    done = [failure["iteration"] for failure in story]
    assert done == sorted({*done}), "each attempt got further"
    for number, iteration in (1, done[0]), (2, done[1]):
        line = rf"restart {number} of 2: rank 1 failed with .*{PLANTED}.*\) after "
        assert re.search(rf"{line}iteration {iteration}; continuing from", run.stdout)
    assert len(done) == 3
    log = (run.folder / "logs" / "rank_1.log").read_text()
    assert log.count("raised ValueError: planted in one rank") == 3
    assert command.all_gone(process)
