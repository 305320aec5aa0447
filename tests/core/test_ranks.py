"""A rank that a launcher started: its signals, its processes, and what the console shows."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

from rltrain.config import Placement
from rltrain.ranks.signals import OF_SCHEDULERS
from rltrain.ranks.world import SAFE_PATH
from rltrain.run import worker
from rltrain.run.worker import run_launched
from rltrain.testing import make_config
from rltrain.types import World


@pytest.fixture
def launched():
    """Run a rank here; later tests, and what they start, handle signals as before."""
    numbers = (signal.SIGTERM, *OF_SCHEDULERS)
    before = {number: signal.getsignal(number) for number in numbers}
    yield run_launched
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_task_starts_processes_in_a_rank_as_it_does_alone(launched, monkeypatch, tmp_path):
    """The method that multiprocessing fixed when it started the rank is not the task's."""
    for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_WORLD_SIZE", 1)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv(*SAFE_PATH)
    found = []

    def work(config, world, log):
        found.append(multiprocessing.get_start_method(allow_none=True))
        found.append(os.environ.get(SAFE_PATH[0]))

    before = multiprocessing.get_start_method(True)
    multiprocessing.set_start_method("forkserver", force=True)
    try:
        launched(Placement(backend="gloo", device_kind="cpu"), str(tmp_path), work)
    finally:
        multiprocessing.set_start_method(before, force=True)
    assert found == [None, None]


@pytest.mark.parametrize(
    ("asked", "shown"), [(None, []), ("all", [0, 1, 2, 3]), ((1,), [1, 3]), ((0, 1), [0, 1, 2, 3])]
)
def test_ranks_that_are_shown_are_counted_on_their_node(asked, shown):
    # With torchrun's --virtual-local-rank, LOCAL_RANK is 0 for all.
    worlds = [World(rank, 0, rank // 2, 4, 2, 2) for rank in range(4)]
    config = make_config(show_ranks=asked)
    assert [world.rank for world in worlds if worker.is_shown(config, world)] == shown
