"""Exported policies of mjlab's tasks have what mjlab's own files have, and the exact numbers."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from mjlab.rl.exporter_utils import attach_metadata_to_onnx, get_base_metadata

import rltrain
from rltrain.cli import main
from rltrain_mjlab.config import with_options
from rltrain_mjlab.description import describe
from rltrain_mjlab.env import MjlabEnv

pytestmark = pytest.mark.slow

TASK = "Mjlab-Velocity-Flat-Unitree-Go1"
SMALL = {
    "num_steps_per_env": 4,
    "algorithm.num_mini_batches": 1,
    "algorithm.num_learning_epochs": 1,
}


def make(task: str) -> MjlabEnv:
    config = with_options(task, {})
    config.scene.num_envs, config.seed = 1, 0
    return MjlabEnv(task, config)


def metadata(path: Path) -> dict[str, str]:
    return {each.key: each.value for each in onnx.load(path).metadata_props}


def test_the_file_has_mjlabs_own_metadata(tmp_path):
    trained = rltrain.train(
        library="rsl_rl",
        task=TASK,
        num_envs=2,
        max_iterations=1,
        device="cpu",
        writers=(),
        log_root=str(tmp_path),
        agent=SMALL,
    )
    words = ["--num-envs", "2", "--device", "cpu", "--verify", "20"]
    assert main(["export", trained.run_dir, *words]) == 0
    exported = Path(trained.run_dir, "exported")
    found = metadata(exported / "policy.onnx")

    env = make(TASK)
    of_mjlab = get_base_metadata(env.simulation, Path(trained.checkpoint).name)
    empty = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))
    onnx.save(empty, tmp_path / "empty.onnx")
    attach_metadata_to_onnx(str(tmp_path / "empty.onnx"), of_mjlab)
    own = metadata(tmp_path / "empty.onnx")
    assert {name: found[name] for name in own} == own
    assert own["joint_stiffness"].startswith("15.895,")

    facts = json.loads((exported / "policy.json").read_text())
    exact = facts["mjlab"]["exact"]
    assert exact["joint_stiffness"] == of_mjlab["joint_stiffness"]
    assert exact["action_scale"] == of_mjlab["action_scale"]
    assert facts["mjlab"]["decimation"] * facts["mjlab"]["physics_dt"] == facts["step_dt"] == 0.02
    assert facts["files"]["onnx"]["verified"]["passed"]


def test_a_task_without_a_robot_has_its_times():
    assert describe(make("Mjlab-Cartpole-Balance").simulation, "model.pt") == {
        "decimation": 5,
        "physics_dt": 0.01,
    }
