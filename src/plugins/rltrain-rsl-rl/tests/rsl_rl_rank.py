"""One rank of two, on gloo: `python rsl_rl_rank.py RANK STORE FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from rsl_rl_stubs import LocalSession, small_agent

from rltrain.records import Scalars
from rltrain.types import World
from rltrain_rsl_rl.adapter import RslRlLibrary
from rltrain_rsl_rl.runner import _standardised


class Group:
    rank, world_size, device = 0, 2, "cpu"

    def all_reduce(self, x, op="sum"):
        dist.all_reduce(x)
        return x / self.world_size if op == "mean" else x

    def broadcast(self, x, src=0):
        dist.broadcast(x, src)
        return x


def main(rank: int, store: str, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(rank)
    session = LocalSession(
        folder / f"rank_{rank}",
        small_agent(),
        world=World(rank=rank, local_rank=rank, world_size=2),
        group=Group(),
        seed=rank,
        distributed=True,
    )
    first = session.env.reset(seed=rank)[0].clone()
    RslRlLibrary().rltrain_train(session)
    last = [record for record in session.records if isinstance(record, Scalars)][-1]
    local = torch.arange(6.0)[rank * 3 : rank * 3 + 3]
    report = {
        "first": first.tolist(),
        "state": {
            f"{role}.{name}": tensor.tolist()
            for role, model in session.models.items()
            for name, tensor in model.state_dict().items()
        },
        "learning_rate": last.values["Loss/learning_rate"],
        "iterations": list(session.iterations()),
        "saved": session.saved(),
        "standardised": _standardised(session.group, local).tolist(),
    }
    (folder / f"rank_{rank}.json").write_text(json.dumps(report))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
