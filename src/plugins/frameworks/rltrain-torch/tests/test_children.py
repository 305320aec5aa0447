"""Ranks that torch elastic has forked without knowing them."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from multiprocessing.process import _children  # Those that active_children() knows.
from multiprocessing.util import get_temp_dir

import pytest

from rltrain.launch import Process, private_folder, with_temporary_files
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


def test_a_new_server_forks_ranks_where_the_files_of_the_old_one_were_removed(forkserver):
    process, server = start(forkserver)
    process.kill()
    process.join()
    shutil.rmtree(get_temp_dir())
    with private_folder() as folder, with_temporary_files(folder):
        Children(folder)
        again, other = start(forkserver)
        again.kill()
        again.join()
        Children(folder)
        third, same = start(forkserver)
        third.kill()
        third.join()
    assert gone(server)
    assert same == other
