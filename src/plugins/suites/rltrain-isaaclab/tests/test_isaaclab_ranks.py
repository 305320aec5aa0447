"""Two real ranks learn with each installed library whose version is supported.

Also runs with the versions that Isaac Lab 2.3 pins, those of `constraints/isaaclab-2.3.txt`.
"""

from __future__ import annotations

import json

import pytest
from helpers import rltrain_command

from rltrain.plugins.registry import discover

FINAL = {"rl_games": "*.pth", "rsl_rl": "model_1.pt", "skrl": "agent_*.pt"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("library", FINAL)
def test_two_ranks_learn(library, tmp_path):
    [record] = [record for record in discover().records if record.name == library]
    if record.status != "ready":
        pytest.skip(f"{library} is {record.status}: {record.reason}")
    rltrain_command(
        *("--library", library, "--task", "Isaac-Cartpole-v0", "--device", "cpu", "--headless"),
        *("--distributed", "--nproc-per-node", "2", "--max-iterations", "2"),
        *("--log-root", str(tmp_path), "env.rewards.alive.weight=2"),
        timeout=560,
        check=True,
    )
    assert list(tmp_path.rglob(FINAL[library]))
    [manifest] = tmp_path.rglob("manifest.json")
    assert json.loads(manifest.read_text())["world_size"] == 2
