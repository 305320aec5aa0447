from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # Makes the helpers next to the tests importable.


@pytest.fixture
def train_ranks(tmp_path):
    """Train briefly on the ranks of a fake world."""

    def run(world, **options):
        settings = {"num_envs": 8, "max_iterations": 2, "log_root": str(tmp_path / "logs")}
        return world.train(library="skrl", **settings | options)

    return run
