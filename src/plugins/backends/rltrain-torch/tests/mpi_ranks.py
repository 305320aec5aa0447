"""One of three ranks: calls what libraries call of torch.distributed, and checks what it gets."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from mpi4py import MPI

from rltrain.types import World
from rltrain_mpi.backend import MpiProcessGroup


def reduced(tensor, op=dist.ReduceOp.SUM, **given):
    dist.all_reduce(tensor, op, **given)
    return tensor.tolist()


def main() -> None:
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    group = MpiProcessGroup(World(rank, rank, 0, size, size))
    one = torch.tensor([rank + 1.0])
    two = torch.tensor([rank + 1.0, -rank - 1.0])
    assert dist.get_backend() == "rltrain_mpi"
    assert reduced(two.clone()) == [6.0, -6.0]
    assert reduced(two.clone(), dist.ReduceOp.AVG) == [2.0, -2.0]
    assert reduced(two.long(), dist.ReduceOp.MAX) == [3, -1]
    assert reduced(torch.tensor([rank == 0, True]), dist.ReduceOp.MIN) == [False, True]
    assert reduced(two.bfloat16()) == [6.0, -6.0]
    assert reduced(torch.stack([two, two], dim=1)[:, 0]) == [6.0, -6.0]
    assert reduced(torch.nn.Parameter(two.clone())) == [6.0, -6.0]
    waiting = two.clone()
    dist.all_reduce(waiting, async_op=True).wait()
    assert waiting.tolist() == [6.0, -6.0]

    sent = two.clone()
    dist.broadcast(sent, src=1)
    assert sent.tolist() == [2.0, -2.0]
    rows = [torch.empty(1) for _ in range(size)]
    dist.all_gather(rows, one)
    assert rows == [1.0, 2.0, 3.0]
    whole = torch.empty(size)
    dist.all_gather_into_tensor(whole, one)
    assert whole.tolist() == [1.0, 2.0, 3.0]
    rows = [torch.empty(1) for _ in range(size)] if rank == 1 else None
    dist.gather(one, rows, dst=1)
    assert rows == ([1.0, 2.0, 3.0] if rank == 1 else None)
    objects = [None] * size
    dist.all_gather_object(objects, "a" * (rank + 1))
    assert objects == ["a", "aa", "aaa"]
    objects = ["a", 1] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects)
    assert objects == ["a", 1]

    outer = dist.new_group([0, 2])
    assert rank == 1 or reduced(one.clone(), group=outer) == [4.0]
    assert reduced(one.clone(), group=dist.new_group(list(reversed(range(size))))) == [6.0]
    with pytest.raises(NotImplementedError, match=r"^The backend mpi has no send\..* gloo\.$"):
        dist.send(one, dst=(rank + 1) % size)
    dist.barrier()
    print(f"rank {rank} has all")
    group.close()


if __name__ == "__main__":
    main()
