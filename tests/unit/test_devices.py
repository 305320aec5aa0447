"""A rank's place and device: joined ranks, number of ranks, selected devices; and signals."""

from __future__ import annotations

import os
import signal

import pytest

from rltrain.ranks.devices import MAX_CPU_RANKS, count_ranks, restrict_gpus, with_device
from rltrain.ranks.machine import available_cores
from rltrain.ranks.signals import may_catch
from rltrain.ranks.world import (
    SAFE_PATH,
    World,
    export_rank_env,
    hide_rank_variables,
    rank_from_env,
)


def environ(**variables) -> dict[str, str]:
    return {name: str(value) for name, value in variables.items()}


def test_missing_launcher_variables_are_derived():
    variables = environ(RANK=5, LOCAL_RANK=1, WORLD_SIZE=8, LOCAL_WORLD_SIZE=4)
    assert rank_from_env(variables) == World(5, 1, 1, 8, 4, 2)
    assert rank_from_env(environ(RANK=1, LOCAL_RANK=1, WORLD_SIZE=2)) == World(1, 1, 0, 2, 2, 1)


PLACE = World(1, 1, 0, 2, 2, 1)
CUDA = {(0,): 0, (0, 1): 1, None: 1}


def test_a_joined_rank_gets_torchruns_variables():
    variables = {"RANK": "7", "HOME": "/"}
    export_rank_env(PLACE, "n1", 5000, variables)
    assert variables == {
        **environ(RANK=1, LOCAL_RANK=1, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, HOME="/"),
        **environ(GROUP_RANK=0, GROUP_WORLD_SIZE=1, MASTER_ADDR="n1", MASTER_PORT=5000),
    }
    assert rank_from_env(variables) == PLACE


def test_variables_of_torchrun_stay_untouched_and_hidden_ones_leave_no_rank_to_join():
    variables = environ(RANK=1, LOCAL_RANK=1, WORLD_SIZE=2, MASTER_ADDR="a", MASTER_PORT=1)
    before = dict(variables)
    export_rank_env(PLACE, "n1", 5000, variables)
    assert variables == before
    variables = environ(RANK=0, LOCAL_RANK=0, WORLD_SIZE=2, HOME="/")
    hide_rank_variables(variables)
    assert variables == {"HOME": "/", **dict([SAFE_PATH])}
    hide_rank_variables(variables)


@pytest.mark.parametrize(
    ("asked", "device", "gpus", "ranks"),
    [
        *((None, "cuda", (0, 1, 2), 3), ("gpu", "cuda", (0, 1), 2), (2, "cuda", (0, 1, 2), 2)),
        (None, "cpu", (), min(available_cores(), MAX_CPU_RANKS)),
        ("cpu", "cpu", (), available_cores()),
        (17, "cpu", (), 17),
    ],
)
def test_ranks_are_counted(asked, device, gpus, ranks):
    assert count_ranks(asked, device, gpus) == ranks


@pytest.mark.parametrize(
    ("kind", "ids", "place"),
    [("cpu", None, "cpu"), *(("cuda", ids, f"cuda:{n}") for ids, n in CUDA.items())],
)
def test_a_started_rank_is_on_the_device_of_the_plan(kind, ids, place):
    world = World(rank=1, local_rank=1, world_size=2, local_world_size=2)
    assert with_device(world, kind, ids).device == place


@pytest.mark.parametrize(
    ("visible", "ids", "shown"),
    [
        *((None, (1, 0), "1,0"), ("4,5,6", (2, 0), "6,4"), ("GPU-aa, GPU-bb", (1,), "GPU-bb")),
        *(("4,5", None, "4,5"), (None, None, None)),
    ],
)
def test_chosen_gpus_are_indices_into_the_visible_ones(monkeypatch, visible, ids, shown):
    # Set, then deleted, so that it is always restored.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    restrict_gpus(ids)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == shown


@pytest.mark.parametrize(
    ("number", "handler", "free"),
    [
        (signal.SIGHUP, signal.SIG_DFL, True),
        (signal.SIGHUP, signal.SIG_IGN, False),  # By nohup.
        (signal.SIGTERM, lambda number, frame: None, True),
        (signal.SIGUSR1, signal.SIG_DFL, True),
        (signal.SIGUSR1, signal.SIG_IGN, False),
        (signal.SIGUSR1, lambda number, frame: None, False),  # The user's job asks for it.
    ],
)
def test_a_launcher_leaves_signals_that_others_want(number, handler, free):
    before = signal.signal(number, handler)
    try:
        assert may_catch(number) is free
    finally:
        signal.signal(number, before)
