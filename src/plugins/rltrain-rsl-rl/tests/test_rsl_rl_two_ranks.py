from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("rsl_rl_rank.py")


def two_ranks(folder: Path) -> list[dict]:
    # What a launcher would set is wrong here on purpose: only the session counts.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WORLD_SIZE": "5"}
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(rank), folder / "store", folder],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.slow
def test_two_ranks_stay_equal_on_different_data(tmp_path):
    root, other = two_ranks(tmp_path)
    assert root["first"] != other["first"]
    assert root["state"] == other["state"]
    assert root["learning_rate"] == other["learning_rate"]
    assert root["iterations"] == other["iterations"] == [1, 2, 3]
    assert root["saved"]
    assert not other["saved"]
    # 8 environments, 8 steps, 3 iterations, 2 ranks: the normalisers have seen both ranks' data.
    assert root["state"]["actor.obs_normalizer.count"] == 8 * 8 * 3 * 2
    x = torch.arange(6.0)
    expected = (x - x.mean()) / (x.std() + 1e-8)
    assert torch.allclose(torch.tensor(root["standardised"] + other["standardised"]), expected)
