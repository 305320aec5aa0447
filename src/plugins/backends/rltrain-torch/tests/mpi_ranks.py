"""One of several ranks: calls torch.distributed, and writes what it got."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from mpi4py import MPI

from rltrain.types import World
from rltrain_mpi.backend import MpiProcessGroup


def main() -> None:
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    group = MpiProcessGroup(World(rank, rank, 0, size, size))
    one = torch.tensor([rank + 1.0])
    two = torch.tensor([rank + 1.0, -rank - 1.0])
    found = {}

    def reduced(name, tensor, op=dist.ReduceOp.SUM):
        dist.all_reduce(tensor, op)
        found[name] = tensor.tolist()

    reduced("sum of float32", two.clone())
    reduced("mean of float32", two.clone(), dist.ReduceOp.AVG)
    reduced("max of int64", two.long(), dist.ReduceOp.MAX)
    reduced("min of bool", torch.tensor([rank == 0, True]), dist.ReduceOp.MIN)
    reduced("sum of bfloat16", two.bfloat16())
    reduced("sum of a column", torch.stack([two, two], dim=1)[:, 0])
    waiting = two.clone()
    dist.all_reduce(waiting, async_op=True).wait()
    found["sum without waiting"] = waiting.tolist()
    parameter = torch.nn.Parameter(two.clone())
    dist.all_reduce(parameter)
    found["sum of a parameter"] = parameter.tolist()

    sent = two.clone()
    dist.broadcast(sent, src=1)
    found["broadcast"] = sent.tolist()
    rows = [torch.empty(1) for _ in range(size)]
    dist.all_gather(rows, one)
    found["all_gather"] = [row.tolist() for row in rows]
    whole = torch.empty(size)
    dist.all_gather_into_tensor(whole, one)
    found["all_gather_into_tensor"] = whole.tolist()
    rows = [torch.empty(1) for _ in range(size)] if rank == 1 else None
    dist.gather(one, rows, dst=1)
    found["gather"] = [row.tolist() for row in rows or []]
    objects = [None] * size
    dist.all_gather_object(objects, "a" * (rank + 1))
    found["all_gather_object"] = objects
    objects = ["a", 1] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects)
    found["broadcast_object_list"] = objects

    outer = dist.new_group([0, 2])
    found["sum of the outer ranks"] = None
    if rank != 1:
        x = one.clone()
        dist.all_reduce(x, group=outer)
        found["sum of the outer ranks"] = x.item()
    x = one.clone()
    dist.all_reduce(x, group=dist.new_group(list(reversed(range(size)))))
    found["sum over reversed ranks"] = x.item()
    found["group of the default name"] = dist.get_backend()
    try:
        dist.send(one, dst=(rank + 1) % size)
    except NotImplementedError as error:
        found["send"] = str(error)
    dist.barrier()
    (Path(sys.argv[1]) / f"{rank}.json").write_text(json.dumps(found))
    group.close()


if __name__ == "__main__":
    main()
