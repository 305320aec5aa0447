"""A rank's place and device: joined ranks, number of ranks, selected devices; and signals."""

from __future__ import annotations

import os
import signal

import pytest

from rltrain.errors import UsageError
from rltrain.ranks.devices import (
    MAX_CPU_RANKS,
    count_ranks,
    rank_device,
    restrict_gpus,
    select_gpus,
    with_device,
)
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


def test_torchrun_on_two_nodes_is_joined():
    variables = environ(
        RANK=5,
        LOCAL_RANK=1,
        WORLD_SIZE=8,
        LOCAL_WORLD_SIZE=4,
        GROUP_RANK=1,
        GROUP_WORLD_SIZE=2,
    )
    assert rank_from_env(variables) == World(5, 1, 1, 8, 4, 2)


def test_missing_launcher_variables_are_derived():
    variables = environ(RANK=5, LOCAL_RANK=1, WORLD_SIZE=8, LOCAL_WORLD_SIZE=4)
    assert rank_from_env(variables) == World(5, 1, 1, 8, 4, 2)
    assert rank_from_env(environ(RANK=1, LOCAL_RANK=1, WORLD_SIZE=2)) == World(1, 1, 0, 2, 2, 1)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "4"},
        {"LOCAL_RANK": "0", "WORLD_SIZE": "4"},
        {"RANK": "", "LOCAL_RANK": "", "WORLD_SIZE": ""},
    ],
)
def test_variables_that_do_not_describe_ranks_are_not_joined(variables):
    assert rank_from_env(variables) is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (environ(RANK="a", LOCAL_RANK=0, WORLD_SIZE=1), "not valid rank numbers"),
        (environ(RANK=0, LOCAL_RANK=0, WORLD_SIZE=0), "contradict each other: RANK=0"),
        (environ(RANK=2, LOCAL_RANK=0, WORLD_SIZE=2), "contradict each other: RANK=2"),
        (environ(RANK=-1, LOCAL_RANK=0, WORLD_SIZE=2), "RANK=-1, .* not valid rank numbers"),
        (environ(RANK=0, LOCAL_RANK=2, WORLD_SIZE=2), "contradict each other"),
        (environ(RANK=0, LOCAL_RANK=0, WORLD_SIZE=2, LOCAL_WORLD_SIZE=4), "contradict each other"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(variables, message):
    with pytest.raises(UsageError, match=message):
        rank_from_env(variables)


PLACE = World(1, 1, 0, 2, 2, 1)


def test_a_joined_rank_gets_torchruns_variables():
    variables = {"RANK": "7", "HOME": "/"}
    export_rank_env(PLACE, "n1", 5000, variables)
    assert variables == {
        **environ(RANK=1, LOCAL_RANK=1, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, HOME="/"),
        **environ(GROUP_RANK=0, GROUP_WORLD_SIZE=1, MASTER_ADDR="n1", MASTER_PORT=5000),
    }
    assert rank_from_env(variables) == PLACE


def test_variables_of_torchrun_stay_untouched():
    variables = environ(RANK=1, LOCAL_RANK=1, WORLD_SIZE=2, MASTER_ADDR="a", MASTER_PORT=1)
    before = dict(variables)
    export_rank_env(PLACE, "n1", 5000, variables)
    assert variables == before


def test_hidden_variables_leave_no_rank_to_join():
    variables = environ(RANK=0, LOCAL_RANK=0, WORLD_SIZE=2, HOME="/")
    hide_rank_variables(variables)
    assert variables == {"HOME": "/", **dict([SAFE_PATH])}
    hide_rank_variables(variables)


@pytest.mark.parametrize(
    ("options", "visible", "gpus"),
    [
        ({}, 3, (0, 1, 2)),
        ({}, 0, ()),
        ({"gpu_ids": "all"}, 2, (0, 1)),
        ({"gpu_ids": (2, 0)}, 3, (2, 0)),
    ],
)
def test_gpus_are_selected(options, visible, gpus):
    assert select_gpus(options.get("gpu_ids"), visible) == gpus


@pytest.mark.parametrize(
    ("options", "visible", "message"),
    [
        ({"gpu_ids": "all"}, 0, "--gpu-ids all: no GPU is visible. For the CPU: --gpu-ids None."),
        ({"gpu_ids": (0, 1)}, 0, "--gpu-ids 0 1: there is no GPU 0: no GPU is visible"),
        ({"gpu_ids": (0, 3)}, 2, "there is no GPU 3: 2 GPUs are visible, 0 to 1."),
        ({"gpu_ids": (1,)}, 1, "there is no GPU 1: 1 GPU is visible, 0 to 0."),
    ],
)
def test_missing_gpus_are_refused(options, visible, message):
    with pytest.raises(UsageError) as caught:
        select_gpus(options.get("gpu_ids"), visible)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "device", "gpus", "ranks"),
    [
        (None, "cuda", (0, 1, 2), 3),
        ("gpu", "cuda", (0, 1), 2),
        (2, "cuda", (0, 1, 2), 2),
        (None, "cpu", (), min(available_cores(), MAX_CPU_RANKS)),
        ("cpu", "cpu", (), available_cores()),
        (17, "cpu", (), 17),
    ],
)
def test_ranks_are_counted(asked, device, gpus, ranks):
    assert count_ranks(asked, device, gpus) == ranks


@pytest.mark.parametrize(
    ("asked", "device", "gpus", "message"),
    [
        ("gpu", "cpu", (), "--nproc-per-node gpu: the run is on the CPU"),
        (3, "cuda", (0, 1), "--nproc-per-node 3: only 2 GPU"),
    ],
)
def test_ranks_without_their_own_gpu_are_refused(asked, device, gpus, message):
    with pytest.raises(UsageError, match=message):
        count_ranks(asked, device, gpus)


def test_a_rank_takes_the_device_of_its_local_rank():
    assert [rank_device("cuda", rank, 4) for rank in range(4)] == [f"cuda:{i}" for i in range(4)]
    assert rank_device("cpu", 3, 0) == "cpu"


def test_ranks_that_each_see_their_own_gpu_take_their_first():
    assert rank_device("cuda", 3, 1) == "cuda:0"


def test_ranks_that_share_gpus_take_them_in_turn():
    assert [rank_device("cuda", rank, 2, shared=True) for rank in range(3)] == [
        *("cuda:0", "cuda:1", "cuda:0")
    ]
    assert rank_device("cpu", 3, 0, shared=True) == "cpu"


@pytest.mark.parametrize(
    ("kind", "ids", "place"),
    [
        ("cpu", None, "cpu"),
        ("cuda", (0,), "cuda:0"),
        ("cuda", (0, 1), "cuda:1"),
        ("cuda", None, "cuda:1"),
    ],
)
def test_a_started_rank_is_on_the_device_of_the_plan(kind, ids, place):
    world = World(rank=1, local_rank=1, world_size=2, local_world_size=2)
    assert with_device(world, kind, ids).device == place


def test_more_local_ranks_than_gpus_are_refused():
    with pytest.raises(UsageError, match="Local rank 2 has no GPU of its own: 2 are visible"):
        rank_device("cuda", 2, 2)


@pytest.mark.parametrize(
    ("visible", "ids", "shown"),
    [
        (None, (1, 0), "1,0"),
        ("4,5,6", (2, 0), "6,4"),
        ("GPU-aa, GPU-bb", (1,), "GPU-bb"),
        ("4,5", None, "4,5"),
        (None, None, None),
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
