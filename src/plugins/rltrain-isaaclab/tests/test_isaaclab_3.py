"""What differs in Isaac Lab 3. In a separate process, because a process has one generation."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rltrain_isaaclab import asking

CODE = """
import json, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1])))
sys.argv[1:] = ["--flag-of-ours"]
import torch
from test_isaaclab_env import ASYMMETRIC, CAMERA, make, pushes
from rltrain.errors import UsageError
from rltrain_isaaclab import compat

def refused(**env):
    try:
        make(**env)
    except UsageError as error:
        return str(error)

told = {"unknown": refused(presets="netwon")}
env = make(ASYMMETRIC, presets="newton_mjwarp", compute_final_obs=True, episode_length_s=0.3)
app = sys.modules["isaaclab.app"].RUNNING
told["app"], told["dt"], told["argv"] = dict(app), env.step_dt, sys.argv[1:]
env.reset(seed=0)
finals = []
for action in pushes(env, 12):
    lengths = env.episode_length_buf
    observations, _, terminations, truncations, info = env.step(action)
    done = terminations | truncations
    finals.append("final_obs" in info)
    if finals[-1]:
        told["mask"] = bool((info["_final_obs"] == done).all())
        told["final"] = info["final_obs"]["critic"].abs().mean().item()
        told["first"] = observations["critic"].abs().mean().item()
told["finals"] = finals
compat._held.clear(), app.clear()
make(CAMERA, headless=True)
told["cameras"], told["shown"] = app["enable_cameras"], app["visualizer"]
compat._held.clear(), app.clear()
env = make(renders=True)
env.reset(seed=0)
told["drawn"] = env.render()[0].shape
print(json.dumps(told))
"""


@pytest.fixture
def generation_3(monkeypatch):
    monkeypatch.setenv("STANDIN_GENERATION", "3")
    asking._ask.cache_clear()
    yield
    asking._ask.cache_clear()


def test_environments(generation_3, request):
    command = [sys.executable, "-c", CODE, str(request.path.parent)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    # Isaac Sim prints the last line.
    output = json.loads(next(line for line in result.stdout.splitlines() if line[0] == "{"))
    assert "env.presets=netwon (task Isaac-Cartpole-v0): Unknown preset(s)" in output["unknown"]
    assert output["app"]["device"] == "cpu"
    assert output["argv"] == ["--flag-of-ours"]
    assert output["dt"] == pytest.approx(1 / 30)  # The preset's; episodes have 9 steps.
    assert output["finals"] == [False] * 8 + [True] + [False] * 3
    assert output["mask"]
    assert output["final"] > 2 * output["first"]
    assert output["cameras"]
    assert output["shown"] == "none"
    assert output["drawn"] == [72, 128, 3]
    assert "visualizer" not in output["app"]


def test_a_task_is_described(generation_3):
    answer = asking.ask("Isaac-Cartpole-v0", {})
    assert answer["max_episode_length"] == 300
    options = answer["agents"]["rsl_rl_cfg_entry_point"]["options"]
    assert options["actor"]["distribution_cfg"]["init_std"] == 1.0
    assert "policy" not in options
