"""The private parts of torch on which the backend relies."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

pytest.importorskip("mpi4py")


@pytest.mark.parametrize("name", ["_create_work_from_future", "HashStore", "ProcessGroup"])
def test_the_c_side_has_what_is_called(name):
    assert hasattr(torch._C._distributed_c10d, name)


def test_torch_tells_a_backend_which_ranks_a_group_has():
    fields = distributed_c10d._DistributedBackendOptions()
    assert list(fields.global_ranks_in_group) == []
    assert isinstance(fields.group_id, str)


def test_the_name_is_free():
    assert not hasattr(dist.Backend, "RLTRAIN_MPI")
