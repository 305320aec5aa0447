"""A claim's N ranks as real processes, over gloo or another backend. As a script, it is one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from claim import Claim
from claims import CLAIMS
from shard_runs import Environments, options
from watcher import Watcher

from rltrain.plan.resolve import make_plan
from rltrain.run.worker import make_session

__all__ = ["gloo_run"]


ON_CPU = {"device": "cpu"}
TIMEOUT = 240
"""Seconds for all ranks."""


def gloo_run(
    claim: Claim, ranks: int, folder: Path, where: Mapping[str, Any] = ON_CPU
) -> list[Watcher]:
    """Train on real processes; return the learned state by rank.

    Args:
        claim: what to train.
        ranks: how many.
        folder: where they write.
        where: the options of the run on its backend and devices.

    Raises:
        AssertionError: a rank failed; the message is what the ranks printed.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    files = [folder / f"{rank}.pt" for rank in range(ranks)]
    started = []
    for rank, file in enumerate(files):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_PORT": port}
        place["LOCAL_WORLD_SIZE"] = ranks
        environ = {name: str(value) for name, value in place.items()}
        environ |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        given = json.dumps({**where, "checkpoint": claim.checkpoint})
        command = [sys.executable, __file__, str(claim), str(file), str(folder), given]
        started.append(
            subprocess.Popen(
                command, env={**os.environ, **environ}, stderr=subprocess.PIPE, text=True
            )
        )
    try:
        errors = [process.communicate(timeout=TIMEOUT)[1] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert not any(process.returncode for process in started), "\n".join(errors)
    watchers = []
    for file in files:
        watcher = Watcher()
        watcher.states, watcher.last = torch.load(file)
        watchers.append(watcher)
    return watchers


def main(name: str, file: str, folder: str, given: str) -> None:
    """Run as the rank given by the environment variables."""
    (claim,) = [claim for claim in CLAIMS if str(claim) == name]
    run = {**options(claim, 1, folder), "distributed": True, "writers": ()}
    plan = make_plan(run | json.loads(given))
    watcher = Watcher()
    more = [("watcher", watcher), ("environments", Environments(claim))]
    make_session(plan.config, plan.world, plan.registry, more).run()
    torch.save((watcher.states, watcher.last), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
