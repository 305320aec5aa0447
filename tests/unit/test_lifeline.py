"""The launchers of several nodes watch each other while their ranks run."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from helpers import free_port
from messages import says

from rltrain.config import Placement
from rltrain.errors import PeerLost, RankFailed, UsageError
from rltrain.nodes import Member, connected_nodes, lifeline

OTHER_NODE = """
import sys, time
from rltrain.config import Placement
from rltrain.errors import RankFailed
from rltrain.nodes import Member, connected_nodes, lifeline

lifeline._OWN_WORDS_TIMEOUT = 0.5
number, count, port, how = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
lifeline.node_of = lambda config: Member("node", number, count, host=f"machine{number}")
config = Placement(
    nnodes=count, node_rank=number, master_addr="127.0.0.1", master_port=port, join_timeout=30.0
)
with connected_nodes(config) as check:
    print("met", flush=True)
    if how.startswith("fails"):
        time.sleep(1 if how == "fails late" else 0)
        raise RankFailed("Rank 3 failed.", exit_code=7)
    while how == "waits":
        check()
        time.sleep(0.1)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Do not wait for a node's own report as long as for real ranks; name nodes by number."""
    monkeypatch.setattr(lifeline, "_OWN_WORDS_TIMEOUT", 0.5)

    def node_of(config):
        number = config.node_rank
        return Member("node", number, config.nnodes, host=f"machine{number}")

    monkeypatch.setattr(lifeline, "node_of", node_of)


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def others(port):
    """Starts other nodes as processes, and ends those that are left."""
    started = []

    def start(number, how, count=2):
        words = [sys.executable, "-c", OTHER_NODE, str(number), str(count), str(port), how]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=30)


@contextlib.contextmanager
def node(port, count=2, number=0):
    where = {"master_addr": "127.0.0.1", "master_port": port, "join_timeout": 30.0}
    with connected_nodes(Placement(nnodes=count, node_rank=number, **where)) as check:
        yield check


def wait(check, after=lambda: None):
    after()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        check()
        time.sleep(0.1)


def fail(seconds, error):
    time.sleep(seconds)
    raise error


def ended(process) -> str:
    return process.communicate(timeout=30)[1]


def test_nodes_that_end_well_wait_for_each_other(port, others):
    first = others(1, "ends")
    with node(port):
        assert first.stdout.readline() == "met\n"
        # The framework listens where they met.
        socket.create_server(("127.0.0.1", port)).close()
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(0.5)
    assert ended(first) == ""
    assert first.returncode == 0


@pytest.mark.slow
def test_a_node_that_ended_well_learns_that_another_one_failed_later(port, others):
    first = others(1, "ends", 3)
    others(2, "fails late", 3)
    with pytest.raises(RankFailed, match="Rank 3 failed"), node(port, 3):
        assert first.stdout.readline() == "met\n"
    assert "RankFailed: Node 2 (machine2) failed. Rank 3 failed." in ended(first)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [True, False])
def test_a_node_that_is_stopped_is_named(port, others, monkeypatch, ends):
    monkeypatch.setattr(lifeline, "_SILENCE", 1.0)
    monkeypatch.setattr(lifeline, "_BEAT", 0.2)
    first = others(1, "waits")
    match = r"Node 1 \(machine1\) has not answered for 1 s\."

    def stop():
        assert first.stdout.readline() == "met\n"
        os.kill(first.pid, signal.SIGSTOP)

    with pytest.raises(RankFailed, match=match), node(port) as check:
        stop() if ends else wait(check, stop)


@pytest.mark.slow
def test_a_lost_node_is_named_on_all_others(port, others):
    first, second = others(1, "waits", 3), others(2, "waits", 3)
    match = r"Node 2 \(machine2\) is gone: its launcher was killed"
    with pytest.raises(RankFailed, match=match), node(port, 3) as check:
        wait(check, second.kill)
    assert "RankFailed: Node 2 (machine2) is gone: its launcher was killed" in ended(first)


@pytest.mark.slow
def test_a_node_that_fails_ends_the_others_which_say_why_with_its_status(port, others):
    others(1, "fails", 3)
    third = others(2, "waits", 3)
    with pytest.raises(RankFailed) as caught, node(port, 3) as check:
        wait(check)
    assert str(caught.value) == "Node 1 (machine1) failed. Rank 3 failed."
    assert caught.value.exit_code == 7
    assert "RankFailed: Node 1 (machine1) failed. Rank 3 failed." in ended(third)


def test_a_lost_peer_is_explained_by_its_own_node(port, others):
    others(1, "fails")
    with says(RankFailed), node(port):
        raise PeerLost("Rank 0 failed. It lost a peer.")


@pytest.mark.slow
def test_ranks_that_fail_by_themselves_after_another_node_say_so(port, others):
    others(1, "fails")
    with pytest.raises(ValueError, match="mine"), node(port):
        fail(1.0, ValueError("mine"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "seconds", "error", "words"),
    [
        ("waits", 0, ValueError("mine"), "failed. ValueError mine"),
        ("waits", 0, UsageError("mine"), "failed. mine"),
        ("waits", 0, KeyboardInterrupt(), "was interrupted."),
        ("ends", 0.5, ValueError("mine"), "failed. ValueError mine"),  # It learns of it later.
    ],
)
def test_a_failure_of_ones_own_is_reported_to_the_others(port, others, how, seconds, error, words):
    first = others(1, how)
    with pytest.raises(type(error)), node(port):
        fail(seconds, error)
    assert f"RankFailed: Node 0 (machine0) {words}" in ended(first)
