"""Nodes that come and go, on machines with addresses of their own and a disk that they share."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from machines import connected_machines, missing

pytestmark = pytest.mark.slow

ITERATIONS = 20
LIMIT = 60
"""Seconds to wait for ranks to train on other nodes than before. It takes about 20, and more while
other tests start their ranks."""


@pytest.fixture(scope="module")
def machines():
    """Two of them."""
    why = missing()
    if why is not None:
        pytest.skip(why)
    with connected_machines(2) as made:
        yield made


@pytest.fixture
def start_node(command, machines):
    """Starts one of the run's nodes on a machine. The nodes meet on the first machine."""
    words = ("--library", "rsl_rl", "--task", "probe_plugin:Slow-v0", "--num-envs", "2")
    words = (*words, "agent.save_interval=1")
    words = (*words, "agent.algorithm.num_learning_epochs=1", "agent.algorithm.num_mini_batches=1")
    words = (*words, "--distributed", "--nproc-per-node", "1", "--nnodes", "1:2", "--rdzv-id", "x")
    words = (*words, "--rdzv-endpoint", f"{machines[0].address}:29400", "--max-restarts", "1")
    words = (*words, "--max-iterations", str(ITERATIONS))
    # Two machines on the same cores would each use all of them.
    return lambda machine: command.start(*words, before=machine.inside, OMP_NUM_THREADS="1")


def starts(command):
    """Return each start of ranks: how many there were, and the iterations of their checkpoints."""
    found = []
    # Not recursively: folders of files that are being written come and go.
    for manifest in sorted(command.log_root.glob("*/*/*/manifest.json"), key=os.path.getmtime):
        index = manifest.with_name("checkpoints.json")
        entries = json.loads(index.read_text()) if index.exists() else []
        ranks = json.loads(manifest.read_text())["world_size"]
        found.append((ranks, [entry["iteration"] for entry in entries]))
    return found


def wait_for_start(command, process, ranks):
    """Wait until the last start is one of this many ranks, and has saved a checkpoint."""
    deadline, found = time.monotonic() + LIMIT, []
    while not (found and found[-1][0] == ranks and found[-1][1]):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, f"{ranks} ranks did not start: {found}"
        time.sleep(0.2)
        found = starts(command)


def test_a_run_goes_on_while_nodes_come_and_go(command, machines, start_node):
    first, second = map(start_node, machines)
    wait_for_start(command, first, ranks=2)
    for pid in command.members(second):
        os.kill(pid, signal.SIGKILL)
    wait_for_start(command, first, ranks=1)
    second = start_node(machines[1])
    wait_for_start(command, first, ranks=2)
    machines[0].cut_link()
    try:
        lost, run = command.finish(second, timeout=LIMIT), command.finish(first)
    finally:
        machines[0].join_link()
    assert lost.returncode == 1
    assert f"The node at {machines[0].address}:29400, where the nodes meet, is gone" in lost.stderr
    # One restart was allowed: only the killed node's has counted, for its peer had failed.
    assert run.returncode == 0, run.stderr
    assert "Node machine1 does not answer any more: starting again without it." in run.stdout
    assert run.stdout.count("No checkpoint of runs named x below") == 1
    found = starts(command)
    assert [ranks for ranks, _ in found] == [2, 1, 2, 1]
    assert [each for _, done in found for each in done] == list(range(1, ITERATIONS + 1))
