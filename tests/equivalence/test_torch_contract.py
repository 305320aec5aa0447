"""The private parts of torch that the fake group's `torch.distributed` relies on."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from rltrain.testing import FakeWorld


def test_torch_keeps_its_groups_in_one_object_that_is_read_at_each_use():
    assert type(distributed_c10d._world) is distributed_c10d._World
    assert inspect.getsource(distributed_c10d.is_initialized).count("WORLD") == 1
    assert distributed_c10d._world.default_pg is dist.group.WORLD is None


def test_ranks_get_copies_of_all_tables_that_torch_keeps_in_the_module():
    shared = {
        name
        for name, member in vars(distributed_c10d._World).items()
        if isinstance(member, property) and "global _" in inspect.getsource(member.fget)
    }
    of_groups = {"pg_map", "pg_names", "pg_group_ranks", "pg_backend_config"}
    assert shared == {"group_count", *of_groups, "tags_to_pg", "pg_to_tag"}


@pytest.mark.parametrize(
    "name", ["_set_thread_isolation_mode", "_create_work_from_future", "HashStore", "ProcessGroup"]
)
def test_the_c_side_has_what_is_called(name):
    assert hasattr(torch._C._distributed_c10d, name)


def test_a_group_written_in_python_is_not_wrapped():
    kinds = FakeWorld(2, torch=True).run(lambda group: type(dist.group.WORLD).__name__)
    assert kinds == ["FakeTorchGroup"] * 2
