"""A rank, or a task, that makes no progress is found, named and ended; what is only slow is not."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from helpers import python, wait_for
from messages import check_said

from rltrain.ranks import hangs
from rltrain.ranks.hangs import _LONG, _SHORTEST, HangWatch, Patience, bounded, watching
from rltrain.ranks.pulse import Pulse, pulse_file, pulse_files, read_pulse
from rltrain.ranks.reports import failure
from rltrain.ranks.stacks import Frame, Process
from rltrain.ranks.verdict import RankState, find_missing

RANK = """
import os, signal, sys, threading, time
from pathlib import Path
from rltrain.ranks import hangs
from rltrain.ranks.hangs import _LONG, _SHORTEST, HangWatch, Patience
from rltrain.ranks.pulse import PulseWriter, pulse_file
from rltrain.ranks.stacks import answering, stack_file

folder, rank, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
writer = PulseWriter()

def hang():
    if how.startswith("waits"):
        writer.enter(how.partition(" ")[2])
    if how == "ends":
        writer.phase("ended")
    if how == "stops":
        os.kill(os.getpid(), signal.SIGSTOP)
    while how == "spins":
        pass
    while how == "works":
        writer.phase("learning")
        time.sleep(0.005)
    time.sleep(60)

with answering(stack_file(pulse_file(folder, rank))):
    writer.share(pulse_file(folder, rank))
    writer.phase("learning")
    writer.done(1)
    sys.stdin.readline()  # The watch has seen the iteration begin.
    writer.done(2)
    hang()
"""


class Clock:
    """The time of a watch, in place of the module `time`."""

    now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        time.sleep(seconds)
        self.now += seconds


class Watched:
    """Processes that behave like ranks, each in its own way, and a watch whose time is made up."""

    def __init__(self, folder, clock):
        self.folder, self.clock = folder, clock
        self.processes = []

    def start(self, *ways, timeout=1.5, nodes=1):
        for rank, how in enumerate(ways):
            command = [sys.executable, "-c", RANK, str(self.folder), str(rank), how]
            self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        self.watch = HangWatch(lambda: pulse_files(self.folder), {"step": timeout}, nodes)
        self._wait_for(1)
        assert self.watch.look() is None
        for process in self.processes:
            process.stdin.write(b"\n")
            process.stdin.flush()
        self._wait_for(2)

    def _wait_for(self, iteration):
        def done():
            pulses = [read_pulse(pulse_file(self.folder, n)) for n in range(len(self.processes))]
            return all(pulse is not None and pulse.iteration == iteration for pulse in pulses)

        wait_for(done)
        time.sleep(0.1)  # And are where they hang.

    def hang(self, within=30.0, step=0.25):
        """Let time pass until a hang is found; return it, and the seconds that it took."""
        began = self.clock.now
        while self.clock.now < began + within:
            self.clock.now += step
            time.sleep(0.02)  # Ranks that work do so.
            seconds = self.clock.now - began
            if (hang := self.watch.look()) is not None:
                return hang, seconds
        return None, within


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(hangs, "time", clock)
    watched = Watched(tmp_path, clock)
    yield watched
    for process in watched.processes:
        with process:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words"),
    [("sleeps", "sleeps"), ("spins", "is busy"), ("stops", "is stopped (SIGSTOP, or a debugger)")],
)
def test_the_rank_that_others_wait_for_is_named_and_ended(ranks, tmp_path, how, words):
    ranks.start("waits all_reduce(sum) [7]", how)
    hang, seconds = ranks.hang()
    assert 1.5 < seconds <= 2.5
    assert hang.culprits == (1,)
    first, second = hang.message.splitlines()
    assert first.startswith("Rank 1 hangs, without progress for")
    assert f"rank 1 {words} while learning, in iteration 3, at <string>:" in first
    assert first.endswith(" in hang.")
    assert "rank 0 waits in collective 1 (all_reduce(sum) [7]), in iteration 3" in second
    hang.write_report(tmp_path)
    hang.end()
    assert ranks.processes[1].wait(10) == -signal.SIGKILL
    assert ranks.processes[0].poll() is None
    error = failure(tmp_path, 1, -9)
    assert (str(error), error.rank, error.exit_code) == (hang.message, 1, 1)


@pytest.mark.slow
def test_a_rank_that_gets_no_core_is_busy_too(ranks, monkeypatch):
    look = Process.look

    def starved(pid):
        found = look(pid)
        return found and dataclasses.replace(found, seconds=0.0)

    monkeypatch.setattr(hangs.Process, "look", starved)
    ranks.start("waits barrier", "spins")
    assert "rank 1 is busy while learning" in ranks.hang()[0].message


@pytest.mark.slow
def test_ranks_in_different_collectives_are_told_apart(ranks, tmp_path):
    ranks.start("waits all_reduce(sum) [7]", "waits barrier")
    hang, _ = ranks.hang()
    assert hang.message.startswith("The ranks wait in different collectives")
    assert "rank 1 waits in collective 1 (barrier)" in hang.message
    assert "rank 0 waits in collective 1 (all_reduce(sum) [7])" in hang.message


def missing(tmp_path, *ranks, late):
    """Find who is missing of ranks, each by its collectives, its call, and its seconds."""
    states = [
        RankState(rank, Pulse(1, 1, 2, 9, count, "learning", waiting, call), seconds=seconds)
        for rank, (count, waiting, call, seconds) in enumerate(ranks)
    ]
    file = tmp_path / "rank_1.pulse"
    return find_missing(states, states[late:], file, has_neighbors=False, option="x=1")


def test_ranks_in_different_collectives_are_told_apart_before_both_are_late(tmp_path):
    ranks = (5, True, "all_reduce(sum) [7]", 1.9), (5, True, "barrier", 2.1)
    check_said(missing(tmp_path, *ranks, late=1).message)


def test_where_nobody_is_seen_to_wait_the_rank_that_has_begun_fewer_collectives_hangs(tmp_path):
    hang = missing(tmp_path, *((count, False, "x", 9.0) for count in (7, 5, 7)), late=0)
    assert hang.culprits == (1,)
    check_said(hang.message)


@pytest.mark.slow
def test_a_node_whose_ranks_all_wait_gives_the_others_time_to_name_theirs(ranks, tmp_path):
    ranks.start("waits barrier", "waits barrier", nodes=2)
    hang, seconds = ranks.hang()
    assert 3.0 < seconds <= 4.0  # Twice the time-out.
    assert hang.is_elsewhere
    assert "on another node" in hang.message
    hang.write_report(tmp_path)
    assert "It lost a peer" in str(failure(tmp_path, hang.culprits[0], -9))


@pytest.mark.parametrize(("other", "nodes"), [("another machine", 2), (None, 1)])
def test_ranks_of_other_machines_are_neighbors(tmp_path, monkeypatch, other, nodes):
    watch, counted = SimpleNamespace(period=9.0), []
    monkeypatch.setattr(hangs, "HangWatch", lambda *_, nodes: counted.append(nodes) or watch)
    pulse_file(tmp_path, 0).touch()
    with watching(0, tmp_path, lambda own: [own, *[(other, "x")] * bool(other)], None):
        assert counted == [nodes]


@pytest.mark.slow
def test_a_rank_that_has_left_is_named_by_those_that_wait(ranks, tmp_path):
    ranks.start("waits barrier", "ends")
    hang, _ = ranks.hang()
    assert hang.culprits == (0,)
    assert not hang.is_elsewhere
    assert "The rank that is missing has left" in hang.message
    assert "rank 1 has left training after iteration 2" in hang.message


def test_a_rank_that_works_is_waited_for(ranks):
    ranks.start("waits barrier", "works")
    assert ranks.hang(within=5)[0] is None


@pytest.mark.slow
def test_with_time_out_0_nobody_hangs(ranks):
    ranks.start("sleeps", timeout=0.0)
    assert ranks.hang(within=1000, step=25)[0] is None


@pytest.mark.slow
def test_a_machine_that_was_suspended_has_hung_no_rank(ranks):
    ranks.start("waits barrier", "sleeps")
    assert ranks.hang(within=1)[0] is None
    ranks.clock.now += 3600
    hang, seconds = ranks.hang()
    assert hang.culprits == (1,)
    assert 1.5 < seconds <= 2.5  # From when it goes on.


def pulse(iteration, phase="learning"):
    return Pulse(1, 1, iteration, 1, 0, phase, False, "")


def test_the_time_out_follows_the_longest_iteration():
    patience = Patience(None)
    patience.note(pulse(0, "starting"), 0.0)  # It goes on from iteration 10, and loads.
    patience.note(pulse(0), 200.0)
    assert patience.seconds(pulse(0)) == _LONG  # It may still compile.
    patience.note(pulse(11), 210.0)
    assert patience.seconds(pulse(11)) == _SHORTEST
    patience.note(pulse(12), 270.0)
    patience.note(pulse(13), 280.0)
    assert patience.seconds(pulse(13)) == 600.0
    assert patience.seconds(pulse(13, "saving a checkpoint")) == _LONG


def test_a_time_out_of_the_user_holds_within_iterations():
    patience = Patience({"step": 20.0})
    assert patience.seconds(pulse(0, "starting")) == _LONG
    patience.note(pulse(0), 0.0)
    patience.note(pulse(1), 500.0)
    patience.note(pulse(2), 1000.0)
    assert patience.seconds(pulse(2)) == 20.0
    assert Patience({"step": 0.0}).seconds(pulse(2)) == float("inf")
    patience = Patience({"step": 20.0})  # A first iteration between two looks counts.
    patience.note(pulse(0, "starting"), 0.0)
    patience.note(pulse(1), 1.0)
    assert patience.seconds(pulse(1)) == 20.0


PACKAGES = "/home/me/rltrain/.venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("file", "is_of_the_user"),
    [
        ("/home/me/torch/walker.py", True),  # Whatever the folder's name.
        ("/home/me/rltrain_runs/jax/walker.py", True),
        ("/home/me/rltrain/walker.py", True),
        (f"{PACKAGES}/rsl_rl/runners/on_policy_runner.py", True),
        (f"{PACKAGES}/torch/optim/adam.py", False),
        (f"{PACKAGES}/rltrain_torch/sync.py", False),
        ("/usr/lib/python3/dist-packages/numpy/linalg/linalg.py", False),
        ("/home/me/rltrain/src/plugins/libraries/rltrain-rsl-rl/rltrain_rsl_rl/runner.py", False),
        ("/home/me/rltrain/src/core/rltrain/run/session.py", False),
        (f"{PACKAGES}/rltrain/run/session.py", False),
        (hangs.__file__, False),
        (subprocess.__file__, False),
    ],
)
def test_the_line_that_is_named_is_of_the_task_or_the_library(file, is_of_the_user):
    assert Frame(file, 1, "f").is_of_the_user is is_of_the_user


def test_each_section_of_a_run_may_have_a_timeout_of_its_own():
    patience = Patience({"start": 7.0, "checkpoint": 8.0, "end": 0.0})
    sections = {
        ("starting", 0): 7,
        ("stepping the environment", 0): 7,
        ("stepping the environment", 1): 300,
        ("saving a checkpoint", 1): 8,
        ("ending", 1): float("inf"),
    }
    for (phase, iteration), seconds in sections.items():
        assert patience.seconds(pulse(iteration, phase)) == seconds
    assert patience.option(pulse(1, "ending")) == "--hang-timeout end=inf"


TASK = """
import time
def make():
    time.sleep(60)
"""
LOOK = """
from slow_task import make
from rltrain.ranks.hangs import bounded
with bounded({"start": 1.0}):
    make()
"""


@pytest.mark.slow
def test_a_task_that_cannot_be_made_is_named_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "slow_task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    done = python(LOOK, check=False)
    assert done.returncode == 1
    first, _, where, *_ = done.stderr.splitlines()
    assert first == "Timeout (0:00:01)!"
    assert where == f'  File "{tmp_path}/slow_task.py", line 4 in make'


@pytest.mark.parametrize("timeout", [None, {"start": 0.0}, {"start": 0.1}])
def test_what_ends_in_time_continues(timeout):
    with bounded(timeout):
        pass
    time.sleep(0.2)
