"""Exported files, and checkpoints that mjlab and rltrain continue, are what mjlab's own are."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import onnx
import pytest
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.rl.exporter_utils import attach_metadata_to_onnx, get_base_metadata
from mjlab.utils.os import dump_yaml

import rltrain
from rltrain.cli import main
from rltrain_mjlab import registry
from rltrain_mjlab.config import with_options
from rltrain_mjlab.description import describe
from rltrain_mjlab.env import MjlabEnv

pytestmark = pytest.mark.slow

GO1 = "Mjlab-Velocity-Flat-Unitree-Go1"
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
        task=GO1,
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

    env = make(GO1)
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


TASK, STEPS = "Mjlab-Cartpole-Balance", 8


def of_mjlab(folder):
    """Return mjlab's runner, made as its training script makes it, and its environments."""
    config, agent = registry.env_config(TASK), registry.agent_config(TASK)
    config.scene.num_envs, config.seed, agent.num_steps_per_env = 4, 3, STEPS
    agent.upload_model, agent.logger = False, "tensorboard"
    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(config, "cpu"), clip_actions=agent.clip_actions)
    dump_yaml(folder / "params" / "agent.yaml", asdict(agent))
    return MjlabOnPolicyRunner(env, asdict(agent), str(folder), "cpu"), env.unwrapped


def steps_in(checkpoint):
    return torch.load(checkpoint, weights_only=False)["infos"]["env_state"]["common_step_counter"]


def test_each_goes_on_with_the_others_checkpoint(tmp_path):
    runner, _ = of_mjlab(tmp_path)
    runner.learn(num_learning_iterations=2)
    first = tmp_path / "model_1.pt"
    assert steps_in(first) == 2 * STEPS

    ours = rltrain.train(
        library="rsl_rl",
        task=TASK,
        checkpoint=str(first),
        agent_config=str(tmp_path / "params" / "agent.yaml"),
        num_envs=4,
        max_iterations=3,
        device="cpu",
        writers=(),
        log_root=str(tmp_path / "logs"),
    )
    assert ours.iterations == 1
    assert steps_in(ours.checkpoint) == 3 * STEPS

    again, env = of_mjlab(tmp_path / "again")
    again.load(ours.checkpoint)
    assert env.common_step_counter == 3 * STEPS
    assert again.current_learning_iteration == 2
    again.learn(num_learning_iterations=1)
    assert env.common_step_counter == 4 * STEPS
