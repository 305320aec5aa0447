"""Ranks that torch elastic has forked without knowing them."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.process import _children  # Those that active_children() knows.

import pytest

from rltrain.launch import Process
from rltrain_torch.children import Children


@pytest.fixture
def forkserver():
    return multiprocessing.get_context("forkserver")


def start(forkserver):
    """Start a process, and return it with the one that has forked it."""
    process = forkserver.Process(target=time.sleep, args=(60,))
    process.start()
    return process, Process.look(process.pid).parent


def gone(pid):
    deadline = time.monotonic() + 10
    while Process.look(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    return Process.look(pid) is None


def test_a_rank_whose_start_a_signal_has_cut_off_ends_with_the_run(forkserver, tmp_path):
    children = Children(tmp_path)
    process, server = start(forkserver)
    _children.discard(process)  # As where an exception comes before its start returns.
    children.kill()
    assert Process.look(process.pid) is not None
    children.abandon()
    assert gone(process.pid)
    assert gone(server)
    again, _ = start(forkserver)  # There is a new server.
    again.kill()
    again.join()


def test_a_scripts_own_processes_go_on(forkserver, tmp_path):
    own, _ = start(forkserver)
    try:
        Children(tmp_path).abandon()
        assert own.is_alive()
    finally:
        own.kill()
        own.join()
