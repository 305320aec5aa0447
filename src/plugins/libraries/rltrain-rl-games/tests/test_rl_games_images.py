"""Images: convolutions by default, bytes in rl_games' buffer, no normalization per pixel."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from rltrain.options import set_dotted
from rltrain.testing import make_config
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.run.agents import ContinuousAgent
from rltrain_rl_games.run.networks import GroupsNetwork

(SPEC,) = rltrain_provides()
IMAGE = ArrayInfo((12, 48, 2), "uint8")
SIGHT = TaskInfo("any", "continuous", num_envs=64, observations={"policy": IMAGE})
BLIND = dataclasses.replace(SIGHT, observations={"policy": ArrayInfo((2,))})
BESIDE = dataclasses.replace(SIGHT, observations={"policy": ArrayInfo((2,)), "eye": IMAGE})
SHORT = {"params.config.horizon_length": 4, "params.config.minibatch_size_per_env": 2}


@pytest.mark.parametrize("num_envs", [8, 64])
@pytest.mark.parametrize("action", ["continuous", "discrete", "multi_discrete"])
def test_the_defaults_have_convolutions_and_no_normalizer_of_pixels(action, num_envs):
    task = dataclasses.replace(SIGHT, action=action, num_envs=num_envs)
    params = SPEC.default_agent(task, "ppo")["params"]
    assert params["network"]["cnn"]["permute_input"]
    assert params["network"]["mlp"]["units"]
    assert not params["network"]["separate"]
    assert params["config"]["normalize_input"] is False
    blind = dataclasses.replace(task, observations={"policy": ArrayInfo((4,))})
    assert "cnn" not in SPEC.default_agent(blind, "ppo")["params"]["network"]


@pytest.mark.parametrize(
    ("options", "task", "name"),
    [
        (SPEC.default_agent(SIGHT, "sac"), SIGHT, "SAC of images"),
        (SPEC.default_agent(BLIND, "ppo"), BESIDE, "images outside the group `policy`, and no"),
        (
            {**SPEC.default_agent(BESIDE, "ppo"), "params.network.cnn": None},
            BESIDE,
            "params.network.name actor_critic_groups without cnn",
        ),
        (SPEC.default_agent(BESIDE, "ppo"), BESIDE, None),
    ],
)
def test_images_that_rl_games_would_ignore_are_refused(options, task, name):
    if "params.network.cnn" in options:
        set_dotted(options, "params.network.cnn", options.pop("params.network.cnn"))
    config = make_config(library="rl_games", agent=options)
    names = [each.name for each in SPEC.refuses if each.applies(config, task)]
    assert [found.startswith(name) for found in names] == ([True] if name else [])


def test_the_defaults_use_images_and_normalize_the_vectors_beside_them():
    params = SPEC.default_agent(BESIDE, "ppo")["params"]
    assert params["env"] == {
        "obs_groups": {"obs": ["policy", "eye"]},
        "concate_obs_groups": False,
    }
    assert params["network"]["name"] == "actor_critic_groups"
    assert params["config"]["normalize_input"]
    both = dataclasses.replace(SIGHT, observations={"eye": IMAGE, "policy": IMAGE})
    params = SPEC.default_agent(both, "ppo")["params"]
    assert params["env"]["obs_groups"]["obs"] == ["policy", "eye"]
    assert not params["config"]["normalize_input"]


@pytest.mark.parametrize("separate", [False, True])
def test_the_network_behind_the_encoders_is_rl_games_own(separate):
    params = SPEC.default_agent(BESIDE, "ppo")["params"]["network"]
    params["separate"] = separate
    shapes = {"eye": IMAGE.shape, "policy": (2,)}
    network = GroupsNetwork(params, input_shape=shapes, actions_num=3)
    seen = {name: torch.rand(5, *shape) for name, shape in shapes.items()}
    mu, _, value, _ = network({"obs": seen})
    assert (mu.shape, value.shape) == ((5, 3), (5, 1))
    image = seen["eye"].permute(0, 3, 1, 2)
    encoded = network.actor_cnn.convolutions[0](image).flatten(1)
    hidden = network.actor_mlp(torch.cat([seen["policy"], encoded], 1))
    torch.testing.assert_close(network.mu(hidden), mu)
    first = [x for x in network.modules() if isinstance(x, torch.nn.Conv2d) and x.in_channels == 2]
    assert len(first) == 1 + separate


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
