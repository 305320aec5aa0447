"""What a run listens on, and what another user of the machine can do there.

`pytest -s` prints the table of each run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time

import pytest
from ports import Port, listening
from stranger import stranger

from rltrain.nodes import sealed_afterwards

pytestmark = pytest.mark.slow

TORCH = ("--library", "rsl_rl", "--num-envs", "8", "--distributed", "--max-iterations", "100000")
JAX = ("--library", "skrl", "--framework", "jax", *TORCH[2:])
TIMEOUT = 300
"""Seconds until a run trains: jax compiles its programs first."""


def rows(command) -> int:
    """Return how many iterations the runs of a command have written."""
    files = command.log_root.glob("*/*/*/metrics.jsonl")
    return sum(len(path.read_text().splitlines()) for path in files)


class Watched:
    """Runs that a stranger watches and attacks from their start on."""

    def __init__(self, command, attack, *arguments):
        self.command, self.attack = command, attack
        self.processes = [command.start(*words) for words in arguments]
        self.found: dict[Port, str] = {}

    def ports(self) -> set[Port]:
        return set().union(*(listening(each.pid) for each in self.processes))

    def until(self, trained: int, attacks: bool = True) -> None:
        """Let the stranger attack each new port, until so many iterations have been written."""
        deadline = time.monotonic() + TIMEOUT
        while rows(self.command) < trained:
            assert all(each.poll() is None for each in self.processes), self.ended()
            assert time.monotonic() < deadline, "it does not train"
            for port in (self.ports() if attacks else set()) - self.found.keys():
                self.found[port] = self.attack(port)
            time.sleep(0.05)

    def attack_all(self) -> None:
        self.found = {port: self.attack(port) for port in self.ports()}

    def ended(self) -> list[tuple[int, str]]:
        """Ask the runs to end, and return their statuses and what they printed."""
        for each in self.processes:
            each.send_signal(signal.SIGTERM)
        runs = [self.command.finish(each) for each in self.processes]
        return [(run.returncode, run.stderr + run.stdout) for run in runs]


def attacked(command, capsys, title, *arguments, from_start=True) -> dict[Port, str]:
    """Let a run train while a stranger attacks it; return what it listened on and what came of it.

    It must go on, and end as it does without the stranger.
    """
    with stranger() as attack:
        watched = Watched(command, attack, *arguments)
        watched.until(trained=2, attacks=from_start)
        watched.attack_all()
        watched.until(trained=rows(command) + 3)
        ended = watched.ended()
    with capsys.disabled():
        print(f"\n{title}: " + ("nothing listens" if not watched.found else ""))
        for port, outcome in sorted(watched.found.items(), key=str):
            reach = "this machine" if port.is_local else "everywhere"
            print(f"  {port!s:44} {reach:13} a stranger {outcome:20} {port.process}")
    assert [status for status, _ in ended] == [75] * len(arguments), ended
    assert "\x1b]0;evil" not in "".join(text for _, text in ended)
    return watched.found


def can_seal() -> bool:
    """Return whether this kernel has filters of sockets; some sandboxes have not."""
    with sealed_afterwards():
        server = socket.create_server(("127.0.0.1", 0))
    with server, contextlib.suppress(TimeoutError):
        socket.create_connection(server.getsockname(), timeout=0.5).close()
        return False
    return True


def check_that_nobody_else_gets_in(found):
    for port, outcome in found.items():
        assert port.is_local, (port, outcome)
        if port.number == 0:
            # A test that is not root's has no other user to send.
            assert outcome == "may not connect" or os.geteuid() != 0, (port, outcome)
        elif can_seal():
            assert outcome == "gets no answer", (port, outcome)


@pytest.mark.parametrize("ranks", ["1", "2"])
def test_nobody_else_gets_into_a_run_on_one_node(command, capsys, ranks):
    words = (*TORCH, "--nproc-per-node", ranks)
    check_that_nobody_else_gets_in(attacked(command, capsys, f"processes, {ranks} rank(s)", words))


def test_nobody_else_gets_into_ranks_of_jax(command, capsys):
    pytest.importorskip("jax")
    words = (*JAX, "--nproc-per-node", "2", "agent.agent.rollouts=4")
    found = attacked(command, capsys, "processes, 2 ranks of jax", words)
    assert [port for port in found if port.address.endswith("/coordinator")]
    check_that_nobody_else_gets_in(found)


def test_nobody_else_gets_into_ranks_of_mpi(command, capsys):
    pytest.importorskip("mpi4py")
    words = (*TORCH, "--nproc-per-node", "2", "--backend", "mpi")
    # While it starts, MPICH's mpiexec takes whoever connects for one of its own.
    found = attacked(command, capsys, "mpi, 2 ranks", words, from_start=False)
    if can_seal():  # MPICH's mpiexec listens on all interfaces, but answers nobody.
        assert "connects" not in "".join(found.values())


def test_a_stranger_ends_no_run_on_two_nodes(command, capsys):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    nodes = (*TORCH, "--nproc-per-node", "1", "--nnodes", "2", "--master-addr", "127.0.0.1")
    nodes = (*nodes, "--master-port", port)
    both = [(*nodes, "--node-rank", node) for node in "01"]
    attacked(command, capsys, "processes, 2 nodes", *both)
