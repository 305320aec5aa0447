"""A newcomer's first hour, from the clone to an exported policy, with a newcomer's mistakes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
TASK = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Reach(gymnasium.Env):
    observation_space = Box(-2, 2, (1,), np.float32)
    action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.place, {}

    def step(self, action):
        self.place = np.clip(self.place + 0.2 * action, -2, 2)
        reward = 1.0 - abs(float(self.place[0]))
        return self.place, reward, False, False, {}


gymnasium.register("Reach-v0", entry_point=Reach, max_episode_steps=20)
"""
OLD_STEP = TASK.replace("reward, False, False, {}", "reward, False, {}")
TRAIN = ("--library", "skrl", "--num-envs", "8", "--max-iterations", "3")
MISTAKES = {
    ("--task", "Reach-v0"): "Unknown task 'Reach-v0'",
    ("--task", "reach:Reach-v1"): "Did you mean 'reach:Reach-v0'?",
    ("--task", "old:Reach-v0"): "split `done` into terminated",
    ("--task", "reach:Reach-v0", "--max-iteration", "3"): "Did you mean '--max-iterations'?",
    ("--task", "reach:Reach-v0", "agent.learning_rat=1e-3"): "'agent.agent.learning_rate'?",
    ("--task", "reach:Reach-v0", "agent.agent.learning_rate=fast"): "must be a number",
}
"""What is typed, and what the answer has, which is one line."""


@pytest.fixture
def clone(tmp_path):
    """The clone, with the environment of these tests for that which `make` would install."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone: there is nothing to clone from")
    folder = tmp_path / "rltrain"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True, timeout=60)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def test_a_newcomers_first_hour(clone):
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    environ.pop("MAKEFLAGS", None)

    def typed(*command, status=0):
        done = subprocess.run(
            command,
            cwd=clone,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == status, printed
        assert "Traceback" not in printed
        return printed

    def rltrain(*words, status=0):
        return typed(".venv/bin/rltrain", *words, status=status)

    assert "solved" in typed("make", "--assume-old", ".venv/.ready", "train")
    assert len(rltrain("--help").splitlines()) < 40
    assert "--checkpoint-interval" in rltrain("train", "--help-all")
    assert "CartPole-v1" in rltrain("tasks", "cartpole")
    (clone / "reach.py").write_text(TASK)
    (clone / "old.py").write_text(OLD_STEP)
    for words, answer in MISTAKES.items():
        refused = rltrain(*TRAIN, *words, status=2)
        assert answer in refused
        assert len(refused.splitlines()) == 1
    trained = rltrain(*TRAIN, "--task", "reach:Reach-v0")
    assert "finished  iteration 3/3" in trained
    offered = {}
    for line in trained.splitlines():
        command = line.partition("rltrain ")[2]
        if line.startswith("to "):
            offered[command.split()[0]] = shlex.split(command)
    assert "4 episodes" in rltrain(*offered["evaluate"], "--episodes", "4")
    rltrain(*offered["export"], "--verify", "8")
    assert ".html" in rltrain(*offered["report"])
