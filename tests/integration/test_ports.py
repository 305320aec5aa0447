"""What a run on one node listens on: nothing that another machine, or another user's file, reaches.

`pytest -s` prints the table of each run.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from helpers import wait_for
from ports import Port, listening

pytestmark = pytest.mark.slow

TORCH = ("--library", "rsl_rl", "--num-envs", "8", "--distributed", "--max-iterations", "100000")
JAX = ("--library", "skrl", "--framework", "jax", *TORCH[2:])
TIMEOUT = 300
"""Seconds until a run trains: jax compiles its programs first."""


def rows(command) -> int:
    """Return how many iterations the runs of a command have written."""
    files = command.log_root.glob("*/*/*/metrics.jsonl")
    return sum(len(path.read_text().splitlines()) for path in files)


def check(port: Port) -> None:
    assert port.is_local, port
    if port.number == 0:
        assert Path(port.address).parent.stat().st_mode & 0o077 == 0, port


@pytest.mark.parametrize(
    "words",
    [
        (*TORCH, "--nproc-per-node", "1"),
        (*TORCH, "--nproc-per-node", "2"),
        (*JAX, "--nproc-per-node", "2", "agent.agent.rollouts=4"),
    ],
    ids=["1 rank", "2 ranks", "jax"],
)
def test_a_run_on_one_node_listens_on_this_machine_only(command, capsys, words):
    if "jax" in words:
        pytest.importorskip("jax")
    process, found = command.start(*words), set()

    def trains():
        for port in listening(process.pid) - found:
            check(port)
            found.add(port)
        return rows(command) >= 2

    wait_for(trains, TIMEOUT, process=process)
    process.send_signal(signal.SIGTERM)
    assert command.finish(process).returncode == 75
    with capsys.disabled():
        print("\n" + "\n".join(f"  {port!s:44} {port.process}" for port in sorted(found, key=str)))
