"""Exported policies act without rltrain as they do in it: the same returns, step by step."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from gymnasium.spaces import Box

import rltrain
from rltrain.cli import main
from rltrain.policies.session import open_session
from rltrain.policies.trained import find_trained, plan_policy
from rltrain_play.episodes import Block, play_block

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "run-onnx"
STEPS = 40


class Image(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Where the pendulum points is a spot, its velocity the brightness of a second image."""

    def __init__(self, **options: Any) -> None:
        super().__init__(PendulumEnv(**options))
        self.observation_space = Box(0, 255, (12, 12, 2), np.uint8)

    def observation(self, observation: Any) -> Any:
        x, y, velocity = observation
        place = np.linspace(-1.0, 1.0, 12)
        spot = np.exp(-4 * ((place[:, None] - x) ** 2 + (place - y) ** 2))
        speed = np.full_like(spot, 0.5 + velocity / 20)
        return (255 * np.stack([spot, speed], -1)).astype(np.uint8)


def register() -> None:
    tasks = {"Vector": PendulumEnv, "Image": Image, "Choice": CartPoleEnv}
    for name, env in tasks.items():
        gymnasium.register(f"Exported{name}-v0", env, max_episode_steps=STEPS)


register()

SMALL = {
    "params.config.horizon_length": 8,
    "params.config.minibatch_size": 32,
    "params.config.mini_epochs": 1,
    "params.network.mlp.units": [16],
}
LSTM = {
    "+params.network.rnn": {"name": "lstm", "units": 8, "layers": 1},
    "params.config.seq_length": 4,
}


@dataclass
class Case:
    """A policy of rl_games, and the names in its file."""

    task: str
    inputs: dict[str, list[int]]
    agent: dict[str, Any] = field(default_factory=dict)
    opset: int = 18

    def train(self, log_root: Path) -> Path:
        result = rltrain.train(
            library="rl_games",
            task=self.task,
            num_envs=4,
            max_iterations=1,
            writers=[],
            log_root=str(log_root),
            agent={**SMALL, **self.agent},
        )
        return Path(result.run_dir)


CASES = {
    "recurrent": Case(
        "ExportedVector-v0",
        {"policy": [3], "state_in.hidden": [1, 8], "state_in.cell": [1, 8]},
        LSTM,
    ),
    "image": Case("ExportedImage-v0", {"policy": [12, 12, 2]}, opset=21),
    "discrete": Case("ExportedChoice-v0", {"policy": [4]}),
}


@pytest.fixture(params=CASES, scope="module")
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def exported(case, tmp_path_factory):
    run = case.train(tmp_path_factory.mktemp("logs"))
    formats = ["--format", "onnx", "jit", "pt2", "--opset", str(case.opset)]
    assert main(["export", str(run), *formats, "--verify", "200"]) == 0
    return run / "exported"


def live_return(run: Path, seed: int) -> tuple[float, int]:
    """Return the return of the policy in rltrain, and the seed of the environment."""
    plan = plan_policy(find_trained(str(run), None, {"num_envs": 1}))
    block = Block(seed, 0)
    with open_session(plan.config, plan.world, plan.registry) as session:
        (episode,) = play_block(session, session.load_policy(), block)
    return episode.episode_return, block.environment_seed


def test_the_file_gets_the_return_of_the_live_policy(case, exported, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from run_policy import play

    for seed in (0, 1):
        expected, env_seed = live_return(exported.parent, seed)
        found = play(str(exported / "policy.onnx"), gymnasium.make(case.task), env_seed)
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("case", ["discrete"], indirect=True)
def test_the_example_runs_as_a_program(case, exported):
    command = [EXAMPLE / "run_policy.py", exported / "policy.onnx", "CartPole-v1", "0"]
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0


def test_the_file_names_its_inputs_and_says_what_it_is(case, exported):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(exported / "policy.onnx"))
    shapes = {each.name: each.shape for each in session.get_inputs()}
    assert shapes == {name: ["batch", *shape] for name, shape in case.inputs.items()}
    assert session.get_outputs()[0].name == "actions"
    facts = json.loads((exported / "policy.json").read_text())
    assert {name: each["shape"] for name, each in facts["inputs"].items()} == case.inputs
    assert facts["files"]["onnx"]["opset"] == case.opset
    inside = session.get_modelmeta().custom_metadata_map
    assert json.loads(inside["checkpoint"]) == facts["checkpoint"]
    assert inside["task"] == case.task
    for format in ("onnx", "jit", "pt2"):
        verified = facts["files"][format]["verified"]
        assert verified["passed"]
        assert verified["observations"] >= 200
        assert verified["relative"] <= 1e-5
        assert verified["choices"] == (0 if case.task == "ExportedChoice-v0" else None)
