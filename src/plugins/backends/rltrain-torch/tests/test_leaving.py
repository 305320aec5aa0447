"""A group that is left right after a collective.

With torch 2.7, gloo's threads and the destructor of a group may wait for each other forever.
"""

from __future__ import annotations

import pytest
from helpers import python

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
    python(SCRIPT.format(owner=owner), timeout=60)
