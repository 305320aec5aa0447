"""The launchers of several nodes watch each other while their ranks run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rltrain.errors import PeerLost, RankFailed
from rltrain.launch import private_folder
from rltrain.nodes import lifeline
from rltrain.nodes.lifeline import connected
from rltrain.nodes.meeting import Member, gather
from rltrain.nodes.messages import receive_line

OTHER_NODE = """
import sys, time
from rltrain.errors import RankFailed
from rltrain.launch import Notes, private_folder
from rltrain.nodes import lifeline
from rltrain.nodes.lifeline import connected
from rltrain.nodes.meeting import Member

lifeline._OWN_WORDS_TIMEOUT = 0.5
number, count, port, how = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
node = Member("node", number, count, host=f"machine{number}")
with private_folder() as reports, connected(node, "127.0.0.1", port, 30.0, reports):
    print("met", flush=True)
    if how == "warns late":
        say = lifeline.Line.say
        lifeline.Line.say = lambda line, text: time.sleep(1) or say(line, text)
    if how.startswith("warns"):
        with Notes(reports).shown.open("a") as shown:
            print("Rank 3 waits.\\n  It waits for rank 0.", file=shown)
    if how == "warns late":
        time.sleep(0.5)  # The thread that passes it on has read it.
    if how.startswith("fails"):
        time.sleep(1 if how == "fails late" else 0)
        raise RankFailed("Rank 3 failed.")
    if how == "waits":
        time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Do not wait for words of one's own as long as for real ranks."""
    monkeypatch.setattr(lifeline, "_OWN_WORDS_TIMEOUT", 0.5)


@pytest.fixture
def port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


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
    """Be a node."""
    member = Member("node", number, count, host=f"machine{number}")
    with private_folder() as reports, connected(member, "127.0.0.1", port, 30.0, reports):
        yield


def wait_after(act):
    """Wait as for ranks, after a moment in which something happens."""
    act()
    time.sleep(30)


def fail_later():
    time.sleep(0.5)
    raise ValueError("mine")


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


def test_a_node_that_ended_well_learns_that_another_one_failed_later(port, others):
    first = others(1, "ends", 3)
    others(2, "fails late", 3)
    with pytest.raises(RankFailed, match="Rank 3 failed"), node(port, 3):
        assert first.stdout.readline() == "met\n"
    assert "RankFailed: Node 2 (machine2) failed. Rank 3 failed." in ended(first)


def test_a_node_that_is_stopped_is_not_waited_for_at_the_end(port, others, monkeypatch, capsys):
    monkeypatch.setattr(lifeline, "_SILENCE", 1.0)
    first = others(1, "waits")
    with node(port):
        assert first.stdout.readline() == "met\n"
        os.kill(first.pid, signal.SIGSTOP)
    told = capsys.readouterr().err
    assert told == "Node 1 (machine1) has not answered for 1 s: it is not waited for.\n"


def test_a_node_learns_that_node_0_failed_after_it_had_ended_well(port, others):
    first = others(1, "ends")
    with pytest.raises(ValueError, match="mine"), node(port):
        fail_later()
    assert "RankFailed: Node 0 (machine0) failed. ValueError mine" in ended(first)


def receive(line):
    return json.loads(receive_line(line, 30))


@pytest.fixture
def threads():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("how", ["warns", "warns late"])
def test_node_0_shows_what_ranks_show_on_other_nodes(port, others, capsys, how):
    others(1, how)
    with node(port):
        pass
    assert capsys.readouterr().err == ("node 1 (machine1): Rank 3 waits.\n  It waits for rank 0.\n")


def test_node_0_passes_on_at_once_that_a_node_is_lost(port, others, threads):
    second = others(2, "waits", 3)

    def other():
        member = Member("node", 1, 3, host="machine1")
        ((line, _),) = gather(member, "127.0.0.1", port, 30.0)
        with line:
            second.kill()
            return receive(line), time.monotonic()

    result = threads.submit(other)
    with pytest.raises(RankFailed, match="Node 2"), node(port, 3):
        time.sleep(30)
    words, heard = result.result(30)
    assert words.startswith("Node 2 (machine2) is gone: ")
    assert time.monotonic() - heard > 0.3  # It had a moment before its ranks were ended.


def test_a_lost_node_is_named_on_those_that_hear_only_node_0(port, others):
    first, second = others(1, "waits", 3), others(2, "waits", 3)
    with pytest.raises(RankFailed, match=r"Node 2 \(machine2\) is gone: "), node(port, 3):
        wait_after(second.kill)
    assert "RankFailed: Node 2 (machine2) is gone: its launcher was killed" in ended(first)


def test_a_node_that_fails_ends_the_others_which_say_why(port, others):
    others(1, "fails", 3)
    third = others(2, "waits", 3)
    with pytest.raises(RankFailed) as caught, node(port, 3):
        time.sleep(30)
    assert str(caught.value) == "Node 1 (machine1) failed. Rank 3 failed."
    assert "RankFailed: Node 1 (machine1) failed. Rank 3 failed." in ended(third)


def test_a_node_that_is_killed_is_named(port, others):
    first = others(1, "waits")
    with (
        pytest.raises(RankFailed, match=r"Node 1 \(machine1\) is gone: its launcher was killed"),
        node(port),
    ):
        wait_after(first.kill)


def test_a_lost_peer_is_explained_by_its_own_node(port, others):
    others(1, "fails")
    with pytest.raises(RankFailed, match="Rank 3 failed"), node(port):
        raise PeerLost("Rank 0 failed. It lost a peer.")


def test_a_failure_of_ones_own_is_told_to_the_others(port, others):
    first = others(1, "waits")
    with pytest.raises(ValueError, match="mine"), node(port):
        raise ValueError("mine")
    assert "RankFailed: Node 0 (machine0) failed. ValueError mine" in ended(first)


def test_ctrl_c_on_one_node_is_told_to_the_others(port, others):
    first = others(1, "waits")
    with pytest.raises(KeyboardInterrupt), node(port):
        raise KeyboardInterrupt
    assert "RankFailed: Node 0 (machine0) was interrupted." in ended(first)


def test_a_signal_of_the_user_still_ends_the_run(port, others):
    others(1, "waits")
    before = signal.getsignal(signal.SIGQUIT)
    with pytest.raises(RankFailed, match="received SIGQUIT and ended the run"), node(port):
        wait_after(lambda: os.kill(os.getpid(), signal.SIGQUIT))
    assert signal.getsignal(signal.SIGQUIT) is before
