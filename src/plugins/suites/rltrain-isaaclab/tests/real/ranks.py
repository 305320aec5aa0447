"""Trains one run after the other in the same ranks: it takes 20 s to start Isaac Lab in one.

python -m torch.distributed.run --nproc-per-node 2 ranks.py RUNS RESULTS
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from unittest import mock

import rltrain
from rltrain_isaaclab.answer import answer

SETTINGS = {"distributed": True, "device": "cpu", "num_envs": 8, "max_iterations": 2}


def main(runs: Path, results: Path) -> None:
    """Train with the options of each run, and write what came of it to a file of its name."""
    # torchrun's store would keep the addresses of the process groups before.
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
    for name, (port, options) in json.loads(runs.read_text()).items():
        os.environ["MASTER_PORT"] = str(port)
        result = rltrain.train(**SETTINGS, **options)
        if os.environ["RANK"] == "0":
            told = {"iterations": result.iterations, "frames": result.frames}
            (results / name).write_text(json.dumps(told))


if __name__ == "__main__":
    # A process for each task would take most of the time.
    with mock.patch(
        "rltrain_isaaclab.asking._ask", lambda task, env: answer(task, json.loads(env))
    ):
        main(Path(sys.argv[1]), Path(sys.argv[2]))
