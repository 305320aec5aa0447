"""Every collective, on a GPU: one rank, two GPUs, and two and four ranks on one GPU."""

from __future__ import annotations

import pytest
from on_device import BACKEND, KIND, gpu_only

from rltrain_devkit import BackendConformance


@gpu_only
class TestNcclOfOneRank(BackendConformance):
    backend = "nccl"
    ranks = 1


@gpu_only
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
