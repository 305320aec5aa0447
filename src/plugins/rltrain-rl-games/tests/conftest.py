from __future__ import annotations

import pytest

import rltrain


@pytest.fixture
def train(tmp_path):
    """Train briefly in this process, through the public function."""

    def run(**options):
        settings = {
            "library": "rl_games",
            "num_envs": 16,
            "max_iterations": 2,
            "writers": (),
            "log_root": str(tmp_path / "logs"),
            "agent": {},
            **options,
        }
        return rltrain.train(**settings)

    return run
