"""How many threads torch has on the CPU, and what the ranks of a node are forked from."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from helpers import python

from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec
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
    ("sizes", "given", "expected"),
    [
        ((), {}, 1),
        ((SMALL,), {}, 1),
        ((LARGE,), {}, 4),
        ((LARGE, SMALL), {}, 4),
        ((SMALL, LARGE), {}, 4),
        ((LARGE,), {"rows": 1_000_000}, CORES),
        ((SMALL,), {"space": IMAGE}, CORES),
        ((SMALL,), {"device": "cuda:0"}, 2),  # As it was.
    ],
)
def test_work_pays_for_threads(sizes, given, expected):
    torch.set_num_threads(2)
    assert chosen(*sizes, **given) == expected


def test_the_user_chooses(monkeypatch):
    torch.set_num_threads(3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert chosen(LARGE, space=IMAGE) == 3


def test_a_joined_rank_has_its_own_cores():
    share_cores(World())
    assert torch.get_num_threads() == CORES


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


TO_PRELOAD = """
import sys, threading
asked = []
def look(frame, event, argument):
    if event == "call" and frame.f_globals.get("__name__") == "torch.cuda":
        asked.append(frame.f_code.co_name)
import torch
sys.setprofile(look)
for name in ["rltrain_torch.preload", "rltrain.run.worker", *sys.argv[1:]]:
    __import__(name)
sys.setprofile(None)
opens = {"is_available", "device_count", "init", "_lazy_init"}
threads = threading.active_count()
torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1).zero_grad()
imported = set(sys.modules)
torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()
later = sorted(name for name in set(sys.modules) - imported if name.startswith("torch"))
assert not torch.distributed.is_initialized()
print(sorted(opens.intersection(asked)), threads, later, sep=" | ")
"""


def preloaded() -> list[tuple[str, str]]:
    """Return the modules of installed libraries, with the kind of device."""
    libraries = [spec for spec in discover().all(LibrarySpec) if "torch" in spec.frameworks]
    return [("cpu", "json"), *(pair for spec in libraries for pair in spec.preload.items())]


@pytest.mark.slow
@pytest.mark.parametrize(("device", "module"), preloaded())
def test_what_ranks_are_forked_from_is_imported_without_cuda_or_a_thread(device, module):
    asked, threads, later = python(TO_PRELOAD, module).stdout.splitlines()[-1].split(" | ")
    assert (threads, later) == ("1", "[]")
    if device != "cpu":
        assert asked == "[]"
