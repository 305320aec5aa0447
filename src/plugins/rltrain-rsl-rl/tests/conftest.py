from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # For the helpers beside the tests.


@pytest.fixture(autouse=True)
def _one_thread():
    """Hold torch to one thread: on tensors as small as these, more of them only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def train_ranks(tmp_path):
    """Train briefly on the ranks of a fake world."""

    def run(world, **options):
        settings = {"num_envs": 8, "max_iterations": 2, "log_root": str(tmp_path / "logs")}
        return world.train(library="rsl_rl", **settings | options)

    return run
