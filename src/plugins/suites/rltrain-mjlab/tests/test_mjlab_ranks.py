"""mjlab's environments on real ranks."""

from __future__ import annotations

import pytest
from helpers import rltrain_command

pytestmark = pytest.mark.slow


def trained(log_root, *words):
    """Train the velocity task, and return what was printed."""
    task = ("--task", "Mjlab-Velocity-Flat-Unitree-Go1", "--num-envs", "2", "--device", "cpu")
    place = ("--log-root", str(log_root), "agent.num_steps_per_env=8")
    return rltrain_command(
        *("--library", "rsl_rl", *task, *place, *words),
        timeout=280,
        check=True,
        OMP_NUM_THREADS="1",
    ).stdout


def test_two_ranks_stay_equal_with_an_asymmetric_critic(tmp_path):
    """Every iteration checks that ranks hold equal values, including normalizers."""
    words = ("--distributed", "--nproc-per-node", "2", "--max-iterations", "2")
    assert "iteration 2/2" in trained(tmp_path, *words, "--check-interval", "1")
