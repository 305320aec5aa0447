"""One rank of the test with two processes: trains, and prints what must be equal as JSON."""

from __future__ import annotations

import collections
import json
import os

import torch
import torch.distributed as dist
from skrl_fakes import Corridor, FakeSession, small_agent

from rltrain.types import World
from rltrain_skrl.adapter import SkrlLibrary
from rltrain_torch.group import TorchProcessGroup


def main() -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    world = World(rank=rank, local_rank=rank, world_size=2, local_world_size=2)
    group = TorchProcessGroup("gloo", world)
    sizes: collections.Counter[int] = collections.Counter()
    all_reduce = dist.all_reduce

    def counted(tensor, *arguments, **options):
        sizes[tensor.numel()] += 1
        return all_reduce(tensor, *arguments, **options)

    dist.all_reduce = counted
    # Environments and learner are seeded by the rank: the ranks collect different steps.
    session = FakeSession(Corridor(16), small_agent(), world=world, group=group, max_iterations=3)
    SkrlLibrary().rltrain_train(session)
    states = {role: model.state_dict() for role, model in session.wrapped.items()}
    report = {
        "states": {
            f"{role}.{name}": tensor.tolist()
            for role, state in states.items()
            for name, tensor in state.items()
        },
        "learning rate": session.watched["optimizer"](),
        "parameters": sum(p.numel() for p in session.syncs[0]),
        "sizes": sizes,
        "saved": session.saved,
        "first position": session.env.unwrapped.actions[0].tolist(),
    }
    print(json.dumps(report))
    group.close()


if __name__ == "__main__":
    main()
