"""Ranks as real processes: a claim's, over gloo or another backend. As a script, it is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from claim import Claim
from claims import CLAIMS
from helpers import free_port
from shard_runs import Environments, options
from watcher import Watcher

from rltrain.plan.resolve import make_plan
from rltrain.run.worker import make_session

ON_CPU = {"device": "cpu"}
TIMEOUT = 240
"""Seconds for all ranks."""


def run_processes(words: Sequence[Sequence[object]], timeout: float) -> None:
    """Start a process for each rank, with these words after python, and wait for all."""
    place = {"WORLD_SIZE": len(words), "LOCAL_WORLD_SIZE": len(words), "MASTER_PORT": free_port()}
    place |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1}
    place["PYTHONPATH"] = os.pathsep.join(sys.path)  # They find what the tests find.
    started = []
    for rank, own in enumerate(words):
        environ = {**place, "RANK": rank, "LOCAL_RANK": rank}
        started.append(
            subprocess.Popen(
                [sys.executable, *map(str, own)],
                env=os.environ | {name: str(value) for name, value in environ.items()},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        errors = [process.communicate(timeout=timeout)[1] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert not any(process.returncode for process in started), "\n".join(errors)


def gloo_run(
    claim: Claim, ranks: int, folder: Path, where: Mapping[str, Any] = ON_CPU
) -> list[Watcher]:
    """Train on real processes, on a backend and devices; return the learned state by rank."""
    files = [folder / f"{rank}.pt" for rank in range(ranks)]
    given = json.dumps({**where, "checkpoint": claim.checkpoint})
    run_processes([[__file__, claim, file, folder, given] for file in files], TIMEOUT)
    watchers = []
    for file in files:
        watcher = Watcher()
        watcher.states, watcher.last = torch.load(file)
        watchers.append(watcher)
    return watchers


def main(name: str, file: str, folder: str, given: str) -> None:
    (claim,) = [claim for claim in CLAIMS if str(claim) == name]
    run = {**options(claim, 1, folder), "distributed": True, "writers": ()}
    plan = make_plan(run | json.loads(given))
    watcher = Watcher()
    more = [("watcher", watcher), ("environments", Environments(claim))]
    make_session(plan.config, plan.world, plan.registry, more).run()
    torch.save((watcher.states, watcher.last), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
