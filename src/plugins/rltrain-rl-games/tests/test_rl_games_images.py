"""Images: convolutions by default, bytes in rl_games' buffer, none of them normalised by pixel."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from rltrain.config import RunConfig
from rltrain.testing import FakeWorld, differing
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_rl_games.agents import ContinuousAgent
from rltrain_rl_games.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
IMAGE = ArrayInfo((12, 48, 2), "uint8")
SIGHT = TaskInfo("any", "continuous", num_envs=64, observations={"policy": IMAGE})
SHORT = {"params.config.horizon_length": 4, "params.config.minibatch_size_per_env": 2}


@pytest.mark.parametrize("num_envs", [8, 64])
@pytest.mark.parametrize("action", ["continuous", "discrete", "multi_discrete"])
def test_the_defaults_have_convolutions_and_no_normaliser_of_pixels(action, num_envs):
    task = dataclasses.replace(SIGHT, action=action, num_envs=num_envs)
    params = SPEC.default_agent(task, "ppo")["params"]
    assert params["network"]["cnn"]["permute_input"]
    assert params["network"]["mlp"]["units"]
    assert not params["network"]["separate"]
    assert params["config"]["normalize_input"] is False
    blind = dataclasses.replace(task, observations={"policy": ArrayInfo((4,))})
    assert "cnn" not in SPEC.default_agent(blind, "ppo")["params"]["network"]


@pytest.mark.parametrize(
    ("task", "algorithm", "name"),
    [
        (SIGHT, "sac", "SAC of images"),
        (
            dataclasses.replace(SIGHT, observations={"policy": ArrayInfo((2,)), "eye": IMAGE}),
            "ppo",
            "images beside the group `policy`",
        ),
    ],
)
def test_what_rl_games_would_not_see_is_refused(task, algorithm, name):
    config = RunConfig(library="rl_games", agent=SPEC.default_agent(task, algorithm))
    assert [each.name for each in SPEC.refuses if each.applies(config, task)] == [name]


def test_the_buffer_keeps_bytes(train, monkeypatch):
    seen = []
    prepare = ContinuousAgent.prepare_dataset

    def prepared(agent, batch):
        seen.append((agent.experience_buffer.tensor_dict["obses"].dtype, batch["obses"].dtype))
        prepare(agent, batch)

    monkeypatch.setattr(ContinuousAgent, "prepare_dataset", prepared)
    agent = {**SHORT, "params.config.central_value_config.minibatch_size_per_env": 2}
    task = "rltrain/CartPoleContinuousCamera-v1"
    train(task=task, agent=agent, num_envs=4, max_iterations=1)
    assert seen == [(torch.uint8, torch.uint8)]


@pytest.mark.parametrize(
    "task", ["rltrain/CartPoleContinuousCamera-v1", "rltrain/CartPoleCamera-v1"]
)
def test_ranks_learn_from_images_with_the_default_options_and_end_equal(train_ranks, task):
    # The shipped options of the first are the suite's, with the state for the critic.
    agent = dict(SHORT)
    if "Continuous" in task:
        agent["params.config.central_value_config.minibatch_size_per_env"] = 2
    runs = train_ranks(FakeWorld(2), task=task, agent=agent)
    assert not differing(runs)
    assert any(tensor.dim() == 4 for tensor in runs[0].state().values())
