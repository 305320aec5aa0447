"""mjlab's environments on real ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def trained(log_root, *words):
    """Train the velocity task, and return what was printed."""
    command = [sys.executable, "-m", "rltrain", "--library", "rsl_rl", "--device", "cpu"]
    command += ["--task", "Mjlab-Velocity-Flat-Unitree-Go1", "--num-envs", "2"]
    command += ["--log-root", str(log_root), "agent.num_steps_per_env=8", *words]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_two_ranks_stay_equal_with_an_asymmetric_critic(tmp_path):
    """Every iteration checks that ranks hold equal values, including normalizers."""
    words = ("--distributed", "--nproc-per-node", "2", "--max-iterations", "2")
    assert "iteration 2/2" in trained(tmp_path, *words, "--check-interval", "1")


STAGES = ", ".join(f"{{step: {12 * n}, lin_vel_x: [-{1 + n}, {1 + n}]}}" for n in range(3))
SHORT = (
    "env.episode_length_s=0.1",
    f"env.curriculum.command_vel.params.velocity_stages=[{STAGES}]",
)
"""Episodes of five steps, and stages that begin in the second and the fourth iteration."""


def curriculum(log_root):
    """Return the range of velocities of each iteration, of all runs below a folder."""
    found = {}
    for path in log_root.rglob("metrics.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            values = line.get("values") or {}
            named = {k: v for k, v in values.items() if "curriculum" in k.lower()}
            if line["record"] == "scalars":
                found[line["iteration"]] = named
    return found


def test_a_curriculum_goes_on_after_a_resume(tmp_path):
    trained(tmp_path / "whole", "--max-iterations", "6", *SHORT)
    trained(tmp_path / "parts", "--max-iterations", "3", *SHORT)
    trained(tmp_path / "parts", "--max-iterations", "6", *SHORT, "--checkpoint", "latest")
    whole, parts = curriculum(tmp_path / "whole"), curriculum(tmp_path / "parts")
    assert sorted(parts) == sorted(whole) == [1, 2, 3, 4, 5, 6]
    assert whole[1] != whole[3] != whole[5]
    assert parts == whole
