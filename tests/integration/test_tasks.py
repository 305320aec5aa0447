"""Tasks of each kind run with every library that can act in them."""

from __future__ import annotations

import pytest

import rltrain

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("library", "task"),
    [
        ("rl_games", "CartPole-v1"),
        ("skrl", "CartPole-v1"),
        ("rl_games", "Pendulum-v1"),
        ("rsl_rl", "Pendulum-v1"),
        ("skrl", "Pendulum-v1"),
        ("rl_games", "HalfCheetah-v5"),
        ("rsl_rl", "HalfCheetah-v5"),
        ("skrl", "HalfCheetah-v5"),
        ("rl_games", "FrozenLake-v1"),
        ("rl_games", "rltrain/CartPole-v1"),
        ("skrl", "rltrain/CartPole-v1"),
        ("rl_games", "rltrain/Pendulum-v1"),
        ("rsl_rl", "rltrain/Pendulum-v1"),
        ("skrl", "rltrain/Pendulum-v1"),
    ],
)
def test_task_trains(library, task, tmp_path):
    result = rltrain.train(
        library=library,
        task=task,
        num_envs=2,
        max_iterations=2,
        writers=(),
        log_root=str(tmp_path),
    )
    assert result.iterations == 2
    assert result.frames > 0
    assert result.checkpoint
