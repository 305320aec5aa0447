"""Programs of unmodified `torch.distributed` code, for fake ranks and for real gloo ranks.

`python torch_programs.py RANK SIZE STORE OUT` runs all of them on one real rank. It imports only
torch, so that it runs with any version of torch.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist


def reductions(rank: int) -> Any:
    found = []
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
            x = (torch.arange(6).reshape(2, 3) * (rank + 1) - 3).to(dtype)
            assert dist.all_reduce(x, op) is None
            found.append(x)
    scalar = torch.tensor(rank + 0.1)
    dist.all_reduce(scalar)
    return [*found, scalar]


def in_a_later_wait(rank: int) -> Any:
    x = torch.full((3,), float(rank))
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return x, work.is_completed()


def of_what_needs_gradients(rank: int) -> Any:
    x = torch.full((2,), float(rank), requires_grad=True)
    y = x * 2
    dist.all_reduce(y.detach())
    with torch.no_grad():
        dist.all_reduce(x)
    return x.detach(), y.detach(), x.requires_grad


def broadcasts(rank: int) -> Any:
    found = []
    for src in range(dist.get_world_size()):
        x = torch.arange(3.0) + 10 * rank
        dist.broadcast(x, src)
        found.append(x)
        objects = [{"rank": rank}, "x" * rank]
        dist.broadcast_object_list(objects, src=src)
        found.append(objects)
    return found


def gathers(rank: int) -> Any:
    size = dist.get_world_size()
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "long": "x" * rank})
    parts = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(parts, torch.tensor([rank, 1.0]))
    whole = torch.zeros(size, 2)
    in_one = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    in_one(whole, torch.tensor([[rank, 2.0]]))
    return objects, parts, whole


def groups(rank: int) -> Any:
    size = dist.get_world_size()
    place = [dist.get_rank(), size, dist.is_initialized(), dist.is_available()]
    ends, first = dist.new_group([0, size - 1]), dist.new_group([0])
    x, y = torch.tensor([rank + 1.0]), torch.tensor([float(rank)])
    if rank in (0, size - 1):
        dist.all_reduce(x, group=ends)
        dist.broadcast(y, src=size - 1, group=ends)
        place += [dist.get_rank(ends), dist.get_world_size(ends)]
    if rank == 0:
        dist.all_reduce(x, group=first)
        dist.barrier(group=first)
    dist.barrier()
    return place, x, y


def data_parallel(rank: int) -> Any:
    torch.manual_seed(rank)
    layers = torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
    with model.no_sync():
        model(torch.randn(4, 3)).sum().backward()
    return dict(model.state_dict()), [p.grad for p in model.parameters()]


_ALL = (reductions, in_a_later_wait, of_what_needs_gradients, broadcasts, gathers, groups)
PROGRAMS = {program.__name__: program for program in (*_ALL, data_parallel)}


def main(rank: int, size: int, store: str, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    torch.save({name: program(rank) for name, program in PROGRAMS.items()}, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
