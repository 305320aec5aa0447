"""Work of one of two real gloo ranks; started by `test_torch_group`."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import torch
import torch.distributed as dist

from rltrain.config import Placement
from rltrain.types import World
from rltrain_torch.backends import GlooBackend


def main(rank: int, size: int) -> None:
    world = World(rank, rank, 0, size, size)
    group = GlooBackend().rltrain_init_distributed(world, Placement(backend="gloo"))
    results = {
        "place": [group.rank, group.world_size, group.device],
        "threads": torch.get_num_threads(),
    }
    for kind, make in (("torch", torch.tensor), ("numpy", np.array)):
        for op in ("sum", "mean", "min", "max"):
            reduced = group.all_reduce(make([rank + 1.0, -rank]), op)
            results[f"{kind} {op}"] = reduced.tolist()
            assert type(reduced) is type(make([0.0]))
        for src in range(size):
            results[f"{kind} broadcast {src}"] = group.broadcast(make([rank * 10]), src).tolist()
        results[f"{kind} 0-dim"] = float(group.all_reduce(make(2.0)))
        results[f"{kind} int"] = group.all_reduce(make([rank, 2]), "max").tolist()
    # numpy arrays are not changed; strided tensors are reduced like any other.
    array = np.array([1.0, 2.0])
    group.all_reduce(array)
    results["array after"] = array.tolist()
    strided = torch.arange(4.0).reshape(2, 2).t()
    results["strided"] = group.all_reduce(strided).tolist()
    for src in range(size):
        results[f"object {src}"] = group.broadcast_object({"rank": rank}, src)
    results["objects"] = group.gather_objects([rank] * (rank + 1))
    group.barrier()
    # Library code that calls torch.distributed itself runs over the same ranks.
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    results["default group"] = [tensor.item(), dist.get_world_size(), dist.get_backend()]
    results["interface"] = os.environ.get("GLOO_SOCKET_IFNAME")
    group.close()
    group.close()
    results["closed"] = not dist.is_initialized()
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
