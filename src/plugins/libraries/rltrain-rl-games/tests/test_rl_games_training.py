"""Short real training runs in one process."""

from __future__ import annotations

import copy
import os

import pytest
import torch
from omegaconf import OmegaConf
from rl_games.torch_runner import Runner

from rltrain.errors import UsageError
from rltrain.types import TaskInfo
from rltrain_rl_games.plugin import rltrain_provides

(SPEC,) = rltrain_provides()


@pytest.mark.parametrize("task", ["rltrain/CartPoleContinuous-v1", "rltrain/CartPole-v1"])
def test_trains_and_counts(train, task):
    result = train(task=task)
    assert result.iterations == 2
    assert result.frames == 2 * 16 * 32
    assert result.episode_return > 5
    assert SPEC.checkpoint.keys <= set(torch.load(result.checkpoint, weights_only=False))


def test_rl_games_itself_loads_the_checkpoint(train, tmp_path):
    result = train()
    params = copy.deepcopy(SPEC.default_agent(TaskInfo("any", "continuous", 512), "ppo"))["params"]
    params["config"].update(
        name="stock", env_name="any", num_actors=4, device_name="cpu", device="cpu"
    )
    import gymnasium
    import numpy as np

    params["config"]["env_info"] = {
        "observation_space": gymnasium.spaces.Box(-np.inf, np.inf, (4,)),
        "action_space": gymnasium.spaces.Box(-1, 1, (1,)),
    }
    runner = Runner()
    runner.load({"params": params})
    player = runner.create_player()
    player.restore(result.checkpoint)
    saved = torch.load(result.checkpoint, weights_only=False)["model"]
    loaded = player.model.state_dict()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)


def test_ends_early_at_the_target_and_saves(train):
    result = train(max_iterations=50, num_envs=256, target_return=15.0)
    assert result.solved
    assert result.iterations < 50
    assert SPEC.checkpoint.keys <= set(torch.load(result.checkpoint, weights_only=False))


def test_a_users_own_file_is_accepted_unchanged(train, tmp_path):
    options = copy.deepcopy(dict(SPEC.default_agent(TaskInfo("any", "continuous", 512), "ppo")))
    config = options["params"]["config"]
    config.update(
        name="mine",
        env_name="rlgpu",
        num_actors=8,
        minibatch_size=64,
        multi_gpu=True,
        device="cuda:0",
        max_epochs=1,
        train_dir="runs",
        torch_compile=False,
    )
    del config["minibatch_size_per_env"]
    options["params"]["seed"] = 3
    path = tmp_path / "agent.yaml"
    OmegaConf.save(OmegaConf.create(options), path)
    result = train(agent_config=str(path), num_envs=None, max_iterations=None)
    assert result.iterations == 1
    assert result.frames == 8 * 32
    assert "mine" in os.path.basename(result.checkpoint)


def test_minus_one_in_a_file_leaves_the_choice_to_the_command_line(train, tmp_path):
    options = copy.deepcopy(dict(SPEC.default_agent(TaskInfo("any", "continuous", 512), "ppo")))
    options["params"]["config"].update(num_actors=-1, max_epochs=-1, max_frames=1024)
    path = tmp_path / "agent.yaml"
    OmegaConf.save(OmegaConf.create(options), path)
    assert train(agent_config=str(path), max_iterations=1).frames == 16 * 32
    assert train(agent_config=str(path), max_iterations=None).frames == 1024


def test_a_mini_batch_that_does_not_divide_is_refused_by_its_name(train):
    with pytest.raises(UsageError, match=r"minibatch_size 100: does not divide .* 512"):
        train(agent={"params.config.minibatch_size": 100})
