"""How many threads torch has on the CPU: what the networks' sizes pay for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rltrain.types import World
from rltrain_torch import threads
from rltrain_torch.backends import GlooBackend
from rltrain_torch.threads import add_for, begin_with_few, share_cores

CORES = 8
SMALL, LARGE = 1_000, 1_000_000  # Parameters: 0.002 and 2 GFLOP a pass with 1,000 rows.
IMAGE = Box(0, 255, (64, 64, 3), np.uint8)


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    monkeypatch.setattr(threads, "cores_of_rank", lambda world: CORES)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def chosen(*sizes, space=None, rows=1_000, device="cpu"):
    """Return the number of threads for models of these sizes, one after the other."""
    env = SimpleNamespace(single_observation_space=space or Box(-1, 1, (4,)))
    session = SimpleNamespace(world=World(device=device), env=env, batch_rows=rows)
    begin_with_few(session)
    for size in sizes:
        add_for(session, torch.nn.Linear(size, 1, bias=False))
    return torch.get_num_threads()


@pytest.mark.parametrize(
    ("sizes", "rows", "expected"),
    [
        ((), 1_000, 1),
        ((SMALL,), 1_000, 1),
        ((LARGE,), 1_000, 4),
        ((LARGE, SMALL), 1_000, 4),
        ((SMALL, LARGE), 1_000, 4),
        ((LARGE,), 1_000_000, CORES),
    ],
)
def test_work_pays_for_threads(sizes, rows, expected):
    torch.set_num_threads(2)
    assert chosen(*sizes, rows=rows) == expected


def test_images_are_for_all_cores():
    assert chosen(SMALL, space=IMAGE) == CORES


def test_the_user_chooses(monkeypatch):
    torch.set_num_threads(3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert chosen(LARGE, space=IMAGE) == 3


def test_a_joined_rank_has_its_own_cores():
    share_cores(World())
    assert torch.get_num_threads() == CORES


def test_a_gpu_leaves_torch_as_it_is():
    torch.set_num_threads(3)
    assert chosen(SMALL, device="cuda:0") == 3


def test_the_callers_threads_are_as_before_once_it_has_trained():
    env = SimpleNamespace(single_observation_space=Box(-1, 1, (4,)))
    session = SimpleNamespace(world=World(), env=env, batch_rows=1)
    torch.set_num_threads(3)
    training = GlooBackend().rltrain_train(session)
    next(training)
    assert torch.get_num_threads() == 1
    with pytest.raises(StopIteration) as ended:
        training.send("result")
    assert (ended.value.value, torch.get_num_threads()) == ("result", 3)
