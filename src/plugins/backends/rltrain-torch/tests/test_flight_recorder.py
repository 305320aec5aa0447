"""What torch remembers of the last collectives."""

from __future__ import annotations

import time

import pytest
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

from rltrain_torch.backends import TorchBackend
from rltrain_torch.group import destroy_without_gil

last_collectives = TorchBackend().rltrain_describe_collectives


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    destroy_without_gil(dist.group.WORLD)
    yield
    dist.destroy_process_group()


RECORDS_GLOO = hasattr(c10d, "_dump_fr_trace")


@pytest.mark.skipif(not RECORDS_GLOO, reason="this torch does not record gloo's collectives")
def test_the_last_collectives_are_told_with_the_lines_that_called_them(group):
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(2, 5), src=0)
    # gloo's thread marks a collective as completed just after the caller has gone on.
    deadline = time.monotonic() + 10
    while "not completed" in last_collectives() and time.monotonic() < deadline:
        time.sleep(0.01)
    first, second = last_collectives().splitlines()[-2:]
    assert "gloo:all_reduce [[3]], begun " in first
    assert f" s ago, completed, at {__file__}:" in first
    assert "gloo:broadcast [[2, 5]]" in second


@pytest.mark.skipif(RECORDS_GLOO, reason="this torch records gloo's collectives")
def test_a_torch_that_records_nothing_of_gloo_tells_nothing(group):
    dist.all_reduce(torch.ones(3))
    assert last_collectives() == ""
