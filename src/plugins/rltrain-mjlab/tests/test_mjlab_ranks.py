"""mjlab's environments on real ranks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_two_ranks_stay_equal_with_an_asymmetric_critic(tmp_path):
    """Every iteration checks that ranks hold equal values, including normalizers."""
    command = [sys.executable, "-m", "rltrain", "--library", "rsl_rl", "--distributed"]
    command += ["--task", "Mjlab-Velocity-Flat-Unitree-Go1", "--nproc-per-node", "2"]
    command += ["--num-envs", "2", "--max-iterations", "2", "--check-interval", "1"]
    command += ["--device", "cpu", "--log-root", str(tmp_path), "agent.num_steps_per_env=8"]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "iteration 2/2" in result.stdout
