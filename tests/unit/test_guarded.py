"""The command's exit status is true, whatever happens to the process that works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers import python, rltrain_command, wait_for

from rltrain.__main__ import main

HEAD = """
import atexit, ctypes, os, signal, sys, threading, time
from rltrain.ranks.guarded import guarded
def wait():  # In naps: a signal that comes just before a sleep begins is handled after it.
    while True: time.sleep(0.01)
def work():
    {}
# As the command does: a signal may come before there are two processes.
numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2
sys.exit(guarded(work, signal.pthread_sigmask(signal.SIG_BLOCK, numbers)))
"""


def start(body, of_shell=False):
    """Start the work as the leader of a session, or as the job of a shell, which this one plays."""
    group = {"process_group": 0} if of_shell else {"start_new_session": True}
    words = [sys.executable, "-c", HEAD.format(body)]
    output = subprocess.PIPE
    return subprocess.Popen(words, stdout=output, stderr=output, text=True, **group)


def run(body):
    process = start(body)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return 0", 0),
        ("return 2", 2),
        ("sys.exit()", 0),
        ("sys.exit(2)", 2),
        ("os._exit(0)", 1),
        ("os.execv('/bin/true', ['true'])", 1),
        ("ctypes.CDLL(None).exit(0)", 1),
        ("os._exit(7)", 7),
        ("atexit.register(os._exit, 0); return 1", 1),
        ("atexit.register(os._exit, 5); return 0", 0),
        ("atexit.register(os.abort); return 0", 0),
        ("os.abort()", 128 + signal.SIGABRT),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        # A helper leaves by an exception, through all that its parent has called.
        ("os.fork() or sys.exit(3); os.wait(); return 0", 0),
        ("pid = os.fork()\n    if pid: os.wait()\n    return 0 if pid else 4", 0),
        # A pool that no one shut down keeps nothing.
        ("import concurrent.futures as f; f.ThreadPoolExecutor(1).submit(id, 1); return 0", 0),
    ],
)
def test_the_status_is_that_of_the_work(body, status):
    code, out, err = run(body)
    assert code == status
    assert out == ""
    assert ("before its work was done" in err) == (status == 1 and "atexit" not in body)


@pytest.mark.slow
def test_what_the_work_leaves_running_ends_with_it_and_is_named():
    code, _, err = run("os.system('sleep 60 & true'); os.fork() or time.sleep(61); return 0")
    assert code == 0
    assert err.count("was still there, and is ended: ") == 2
    assert "(sleep 60)" in err


def test_a_daemon_is_left_alone():
    code, out, err = run("os.system('setsid sleep 60 >/dev/null 2>&1 & echo $!'); return 0")
    assert (code, err) == (0, "")
    os.kill(int(out), signal.SIGKILL)


def test_a_thread_that_stays_is_named():
    began = time.monotonic()
    code, _, err = run(
        "import rltrain.ranks.guarded as g; g._TO_EXIT = 0.2\n"
        "    threading.Thread(target=time.sleep, args=[60], name='bridge').start(); return 0"
    )
    assert code == 0
    assert "rltrain: 'bridge' was left running, and is not waited for, at " in err
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_a_process_that_stays_is_named_and_ends():
    code, _, err = run(
        "import multiprocessing, rltrain.ranks.guarded as g; g._TO_EXIT = 0.2\n"
        "    process = multiprocessing.get_context('fork').Process(target=time.sleep, args=[60])\n"
        "    process.name = 'viewer'; process.start(); return 0"
    )
    assert code == 0
    assert "rltrain: 'viewer' was left running, and is not waited for\n" in err
    assert "was still there, and is ended: " in err


def test_what_a_rank_leaves_is_bounded_as_well():
    began = time.monotonic()
    code = (
        "import threading, time, rltrain.ranks.guarded as g\n"
        "g._TO_EXIT = 0.2\n"
        "threading.Thread(target=time.sleep, args=[60], name='bridge').start()\n"
        "g.end_in_time(0)"
    )
    done = python(code)
    assert "'bridge' was left running, and is not waited for, at " in done.stderr
    assert time.monotonic() - began < 40


def in_terminal(body):
    """Start the work as the leader of a terminal's session, and return it and the other end."""
    own, other = os.openpty()
    leader = (
        "import fcntl, os, signal, sys, termios\n"
        "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # It is ignored where nohup runs tests.
        "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    )
    words = [sys.executable, "-c", leader, HEAD.format(body)]
    process = subprocess.Popen(words, stdin=other, stdout=subprocess.PIPE, text=True)
    os.close(other)
    assert process.stdout.readline() == "here\n"
    return process, own


def test_a_terminal_that_closes_asks_the_work_to_end():
    """Linux tells the session's leader only: here, the process that waits."""
    process, terminal = in_terminal("print('here', flush=True); wait()")
    os.close(terminal)
    assert process.wait(timeout=30) == 75


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.mark.slow
def test_what_has_a_process_group_of_its_own_stops_and_goes_on_too():
    """As ranks have, which a terminal's Ctrl-Z does not reach."""
    process = start(
        "helper = os.fork()\n"
        "    if helper: print(helper, flush=True); time.sleep(3); return 0\n"
        "    os.setpgid(0, 0)\n    while True: time.sleep(0.01)",
        of_shell=True,
    )
    helper = int(process.stdout.readline())
    try:
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGTSTP)
        wait_for(lambda: state(helper) == "T", seconds=10)
        os.killpg(process.pid, signal.SIGCONT)
        wait_for(lambda: state(helper) in "SR", seconds=10)
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    assert process.wait(timeout=30) == 0
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2])
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_reaches_the_work_once(number, group):
    process = start("print('here', flush=True); wait()")
    assert process.stdout.readline() == "here\n"
    (os.killpg if group else os.kill)(process.pid, number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == {signal.SIGUSR2: 75}.get(number, 128 + number)
    told = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert err == f"rltrain: {told}.\n"


@pytest.mark.slow
def test_the_work_ends_with_a_killed_guard():
    process = start("print(os.getpid(), flush=True); time.sleep(60)")
    worker = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=10)
    wait_for(lambda: not os.path.exists(f"/proc/{worker}"), seconds=5)


@pytest.mark.parametrize("words", [["--help"], ["version"], ["plugins"]])
def test_a_command_that_only_prints_needs_no_other_process(words, monkeypatch, capsys):
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("it forks"))
    monkeypatch.setattr(sys, "argv", ["rltrain", *words])
    assert main() == 0


def test_a_command_that_is_refused_ends_as_ever():
    run = rltrain_command("train", "--helpp")
    assert run.returncode == 2
    assert "before its work was done" not in run.stderr


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_work_whatever_it_does(number):
    """Python cannot raise what a handler raises in a `__del__`, or while C code runs."""
    code, _, err = run(
        "class Lost:\n"
        f"        def __del__(self): os.kill(os.getpid(), signal.{number}); time.sleep(0.1)\n"
        "    Lost(); time.sleep(50); return 0"
    )
    assert code == 128 + getattr(signal, number)
    assert "Traceback" not in err


@pytest.mark.slow
def test_what_the_work_has_left_is_removed_and_its_helpers_end(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = start(
        "from rltrain.ranks.folders import private_folder\n"
        "    with private_folder():\n"
        "        os.system('sleep 60 & true'); print('here', flush=True); wait()"
    )
    assert process.stdout.readline() == "here\n"
    assert len(list(tmp_path.iterdir())) == 1
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, "rltrain: ended by SIGTERM.\n")
    assert list(tmp_path.iterdir()) == []
