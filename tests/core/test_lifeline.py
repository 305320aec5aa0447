"""The launchers of several nodes watch each other while their ranks run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rltrain.errors import PeerLost, RankFailed
from rltrain.launch.collecting import collect_logs, send_logs
from rltrain.launch.lifeline import connected
from rltrain.launch.meeting import Member, receive

OTHER_NODE = """
import sys, time
from rltrain.errors import RankFailed
from rltrain.launch.lifeline import connected
from rltrain.launch.meeting import Member

number, count, port, how = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
node = Member("node", number, count, host=f"machine{number}")
with connected(node, "127.0.0.1", port, 30.0):
    print("met", flush=True)
    if how == "fails":
        raise RankFailed("Rank 3 failed.")
    if how == "waits":
        time.sleep(60)
"""


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


def node(port, count=2):
    return connected(Member("node", 0, count, host="machine0"), "127.0.0.1", port, 30.0)


def wait_after(act):
    """Wait as for ranks, after a moment in which something happens."""
    act()
    time.sleep(30)


def fail_later():
    time.sleep(0.5)
    raise ValueError("mine")


def ended(process) -> str:
    return process.communicate(timeout=30)[1]


def test_nodes_that_end_well_wait_for_each_other(port, others, tmp_path):
    first = others(1, "ends")
    with node(port) as outcome:
        assert first.stdout.readline() == "met\n"
        # The framework listens where they met.
        socket.create_server(("127.0.0.1", port)).close()
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(0.5)
        outcome.run_dir = str(tmp_path)
    assert ended(first) == ""
    assert first.returncode == 0


def test_a_node_learns_that_node_0_failed_after_it_had_ended_well(port, others):
    first = others(1, "ends")
    with pytest.raises(ValueError, match="mine"), node(port):
        fail_later()
    assert "RankFailed: Node 0 (machine0) failed. ValueError mine" in ended(first)


def test_logs_that_node_0_lacks_are_copied(tmp_path):
    here, there = tmp_path / "here" / "run" / "logs", tmp_path / "there" / "run" / "logs"
    for folder in (here, there):
        folder.mkdir(parents=True)
    (here / "rank_0.log").write_text("mine")
    long = bytes(range(256)) * 10_000
    for name, content in (("0", b"not mine"), ("1", long), ("2", b"")):
        (there / f"rank_{name}.log").write_bytes(content)
    (there / "other.log").write_text("no log of a rank")
    a, b = socket.socketpair()
    with a, b, ThreadPoolExecutor(1) as threads:
        result = threads.submit(collect_logs, a, str(here.parent))
        request = receive(b)
        assert request == {"run_dir": str(here.parent), "have": ["rank_0.log"]}
        send_logs(b, {**request, "run_dir": str(there.parent)})
        assert result.result(30) is None
    assert sorted(path.name for path in here.iterdir()) == [f"rank_{i}.log" for i in range(3)]
    assert (here / "rank_0.log").read_text() == "mine"
    assert (here / "rank_1.log").read_bytes() == long


def test_a_log_that_cannot_be_written_does_not_fail_the_run(tmp_path, capsys):
    there = tmp_path / "logs"
    there.mkdir()
    (there / "rank_1.log").write_bytes(b"x" * 100)
    a, b = socket.socketpair()
    with a, b, ThreadPoolExecutor(1) as threads:
        result = threads.submit(collect_logs, a, str(tmp_path / "deleted"))
        send_logs(b, {**receive(b), "run_dir": str(tmp_path)})
        assert result.result(30) is None
    assert "rank_1.log: a log of another node cannot be written: " in capsys.readouterr().err


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
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RankFailed, match="received SIGTERM and ended the run"), node(port):
        wait_after(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is before
