"""What was trained on Isaac Lab is resumed, evaluated, played and exported."""

from __future__ import annotations

import json

import pytest

import rltrain as package
from rltrain.cli import main

pytestmark = pytest.mark.long

TASK = "Isaac-Cartpole-Direct"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The result of a short run in this process."""
    return package.train(
        **{"library": "rsl_rl", "task": TASK, "num_envs": 8, "max_iterations": 2, "device": "cpu"},
        **{"agent": {"num_steps_per_env": 4}, "log_root": str(tmp_path_factory.mktemp("logs"))},
    )


def test_a_run_is_resumed(trained, capsys):
    package.train(resume=trained.run_dir, max_iterations=3)
    assert "finished  iteration 3/3 " in capsys.readouterr().out


def test_a_policy_is_evaluated(trained, capsys):
    assert main(["evaluate", trained.run_dir, "--episodes", "4", "--json"]) == 0
    printed = capsys.readouterr().out
    (told,) = json.loads(printed[printed.index("[\n {") :])
    assert told["episodes"] == 4


def test_a_policy_is_played(trained, capsys):
    assert main(["play", trained.run_dir, "--steps", "3"]) == 0
    assert "3" in capsys.readouterr().out


def test_a_policy_is_exported_and_checked(trained, tmp_path):
    file = tmp_path / "policy.pt"
    assert main(["export", trained.run_dir, "--format", "jit", "--output", str(file)]) == 0
    assert file.is_file()
