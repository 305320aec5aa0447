"""Every collective, on a GPU: one rank and all GPUs by NCCL, two ranks on one GPU by gloo."""

from __future__ import annotations

import pytest
from on_device import KIND

from rltrain.testing import BackendConformance


@pytest.mark.gpu_only
class TestNcclOfOneRank(BackendConformance):
    backend = "nccl"
    ranks = 1


@pytest.mark.gpu_only
class TestNcclOfTwoRanks(BackendConformance):
    """Skipped with fewer than two GPUs."""

    backend = "nccl"


class TestGlooOnOneGpu(BackendConformance):
    backend = "gloo"
    device = KIND
