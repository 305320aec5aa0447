"""mjlab's own runner continues with a checkpoint of rltrain, and rltrain with one of mjlab's."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.utils.os import dump_yaml

import rltrain
from rltrain_mjlab import registry

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


@pytest.mark.slow
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
