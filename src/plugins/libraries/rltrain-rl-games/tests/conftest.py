from __future__ import annotations

import sys
from pathlib import Path

import pytest

import rltrain

sys.path.insert(0, str(Path(__file__).parent))  # Makes the helpers beside the tests importable.


@pytest.fixture
def train(tmp_path):
    """Train briefly in this process, through the public function."""

    def run(**options):
        return rltrain.train(**_settings(tmp_path, options))

    return run


@pytest.fixture
def train_ranks(tmp_path):
    """Train briefly on the ranks of a fake world."""

    def run(world, **options):
        return world.train(**_settings(tmp_path, {"num_envs": 8, **options}))

    return run


def _settings(folder, options):
    return {
        "library": "rl_games",
        "num_envs": 16,
        "max_iterations": 2,
        "writers": (),
        "log_root": str(folder / "logs"),
        "agent": {},
        **options,
    }
