"""A run on one node listens on nothing that another machine, or another user's file, reaches."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from helpers import wait_for

pytestmark = pytest.mark.slow

TORCH = ("--library", "rsl_rl", "--num-envs", "8", "--distributed", "--max-iterations", "100000")
JAX = ("--library", "skrl", "--framework", "jax", *TORCH[2:])
TIMEOUT = 300
"""Seconds until a run trains: jax compiles its programs first."""


@dataclass(frozen=True)
class Port:
    """A socket on which a process listens."""

    process: str
    """What the process is."""
    address: str
    """An IP address, or the path of a unix socket."""
    number: int = 0
    """Of the port; 0 for a unix socket."""

    @property
    def is_local(self) -> bool:
        return self.number == 0 or self.address.startswith("127.") or self.address == "::1"


def listening(root: int) -> set[Port]:
    """Return what a process and those below it listen on; unix sockets are those with a path."""
    process, found = psutil.Process(root), set()
    names = {}
    for each in (process, *process.children(recursive=True)):
        try:
            names[each.pid] = f"{each.pid} {' '.join(each.cmdline())[:48]}"
        except psutil.Error:
            continue  # It has ended.
    for each in psutil.net_connections("all"):
        if each.pid in names and each.laddr:
            if each.family == socket.AF_UNIX:
                path = each.laddr.replace("/proc/self/", f"/proc/{each.pid}/")
                found.add(Port(names[each.pid], path))
            elif each.status == psutil.CONN_LISTEN:
                found.add(Port(names[each.pid], *each.laddr[:2]))
    return found


def rows(command) -> int:
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
def test_a_run_on_one_node_listens_on_this_machine_only(command, words):
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
