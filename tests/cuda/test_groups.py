"""Every collective, on a GPU: one rank, two GPUs, and two and four ranks on one GPU."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from on_device import BACKEND, KIND

from rltrain_devkit import BackendConformance
from rltrain_torch.backends import TorchBackend

last_collectives = TorchBackend().rltrain_describe_collectives


@pytest.mark.gpu_only
class TestNcclOfOneRank(BackendConformance):
    backend = "nccl"
    ranks = 1


@pytest.mark.gpu_only
class TestNcclOfTwoRanks(BackendConformance):
    """Skipped with fewer than two GPUs."""

    backend = "nccl"


@pytest.mark.usefixtures("nccl_shares")
class TestTwoRanksOnOneGpu(BackendConformance):
    """Over NCCL; on the CPU, over gloo."""

    backend = BACKEND
    devices = 1


@pytest.mark.usefixtures("nccl_shares")
class TestFourRanksOnOneGpu(BackendConformance):
    """Over NCCL; on the CPU, over gloo."""

    backend = BACKEND
    devices = 1
    ranks = 4


class TestGlooOnOneGpu(BackendConformance):
    backend = "gloo"
    device = KIND


@pytest.mark.gpu_only
def test_nccl_remembers_its_last_collectives():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(3, device="cuda"))
        torch.cuda.synchronize()
        assert "nccl:all_reduce [[3]], begun " in last_collectives().splitlines()[-1]
    finally:
        dist.destroy_process_group()
