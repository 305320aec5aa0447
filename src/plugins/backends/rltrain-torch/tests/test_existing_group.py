"""torch's default process group: a run's own, and one that something else has created before."""

from __future__ import annotations

import dataclasses
import os

import pytest
import torch
import torch.distributed as dist
from helpers import python
from messages import says

from rltrain.config import Placement
from rltrain.errors import UsageError
from rltrain.types import World
from rltrain_torch.backends import GlooBackend
from rltrain_torch.group import TorchProcessGroup

ALONE = World(device="cpu")


def test_a_runs_own_is_torchs_default_one_over_loopback_until_it_is_closed(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")  # So that it is restored.
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    group = GlooBackend().rltrain_init_distributed(ALONE, Placement(backend="gloo"))
    assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
    assert (dist.get_world_size(), dist.get_backend()) == (1, "gloo")
    group.close()
    assert not dist.is_initialized()


@pytest.fixture
def existing(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_it_is_used_and_stays(existing):
    placement = Placement(backend="gloo", distributed=True, join_timeout=1)
    group = GlooBackend().rltrain_init_distributed(ALONE, placement)
    assert group.all_reduce(group.broadcast(torch.ones(2))).tolist() == [1, 1]
    group.close()
    assert dist.is_initialized()


def test_one_of_another_size_is_refused(existing):
    placement = Placement(backend="gloo", distributed=True, join_timeout=1)
    world = dataclasses.replace(ALONE, rank=1, world_size=2, local_rank=1, local_world_size=2)
    with says(UsageError):
        GlooBackend().rltrain_init_distributed(world, placement)


def test_one_of_another_backend_is_refused(existing):
    with says(UsageError):
        TorchProcessGroup("nccl", ALONE)


SCRIPT = """
import torch
import torch.distributed as dist
from rltrain.types import World
from rltrain_torch.group import TorchProcessGroup, destroy_without_gil

def create(world):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

def leave(owner):
    if owner == "the user":
        create(None)
    group = TorchProcessGroup("gloo", World(device="cpu"), create)
    subgroup = dist.new_group()  # As users of torch.distributed make it.
    destroy_without_gil(subgroup)
    dist.all_reduce(torch.zeros(400_000), group=subgroup)
    # The larger the tensor, the later a thread frees it.
    group.all_reduce(torch.zeros(400_000))
    group.close()
    assert dist.is_initialized() == (owner == "the user")
    if owner == "the user":
        del group, subgroup
        dist.destroy_process_group()

for _ in range(20):
    leave({owner!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["rltrain", "the user"])
def test_a_group_can_be_destroyed_right_after_a_collective(owner):
    # With torch 2.7, gloo's threads and the destructor of a group may wait for each other forever.
    python(SCRIPT.format(owner=owner), timeout=60)
