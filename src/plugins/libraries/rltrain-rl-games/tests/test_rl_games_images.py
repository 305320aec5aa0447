"""Images: convolutions by default, bytes in rl_games' buffer, no normalization per pixel."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from rltrain.options import set_dotted
from rltrain.testing import FakeWorld, differing, make_config
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.run.agents import ContinuousAgent
from rltrain_rl_games.run.networks import GroupsNetwork

(SPEC,) = rltrain_provides()
IMAGE = ArrayInfo((12, 48, 2), "uint8")
SIGHT = TaskInfo("any", "continuous", num_envs=64, observations={"policy": IMAGE})
BLIND = dataclasses.replace(SIGHT, observations={"policy": ArrayInfo((2,))})
BESIDE = dataclasses.replace(SIGHT, observations={"policy": ArrayInfo((2,)), "eye": IMAGE})
CRITIC = {
    "+params.config.central_value_config": {
        "minibatch_size_per_env": 2,
        "mini_epochs": 1,
        "learning_rate": 3e-4,
        "clip_value": True,
        "normalize_input": True,
        "network": {
            "name": "actor_critic",
            "central_value": True,
            "mlp": {"units": [8], "activation": "elu", "initializer": {"name": "default"}},
        },
    }
}
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


@pytest.mark.parametrize("critic", [False, True])
def test_ranks_learn_from_images_beside_vectors(train_ranks, critic, monkeypatch):
    seen = []
    prepare = ContinuousAgent.prepare_dataset

    def prepared(agent, batch):
        seen.append({name: part.dtype for name, part in batch["obses"].items()})
        prepare(agent, batch)

    monkeypatch.setattr(ContinuousAgent, "prepare_dataset", prepared)
    agent = {**SHORT, **(CRITIC if critic else {})}
    task = "rltrain/CartPoleContinuousCameraAndMotion-v1"
    runs = train_ranks(FakeWorld(2), task=task, agent=agent)
    assert not differing(runs)
    assert seen[0] == {"camera": torch.uint8, "policy": torch.float32}
    moments = [name for name in runs[0].state() if "running_mean_std" in name]
    assert {name.split("running_mean_std.")[-1] for name in moments if "critic" not in name} >= {
        "policy.running_mean"
    }
    assert not any("camera" in name for name in moments)


@pytest.mark.long
def test_a_resumed_run_ends_with_the_same_bytes(train_ranks):
    options = {
        "task": "rltrain/CartPoleContinuousCameraAndMotion-v1",
        "agent": {**SHORT, "params.config.save_frequency": 1, "params.config.save_best_after": 99},
    }
    whole = train_ranks(FakeWorld(2), max_iterations=2, **options)
    folder = Path(whole[0].result.run_dir) / "checkpoints"
    (first,) = folder.glob("*_ep_1*.pth")
    resumed = train_ranks(FakeWorld(2), max_iterations=2, checkpoint=str(first), **options)
    last, again = (Path(runs[0].result.checkpoint) for runs in (whole, resumed))
    assert last.read_bytes() == again.read_bytes()


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
    # The first task's default options are the suite's, with the state for the critic.
    agent = dict(SHORT)
    if "Continuous" in task:
        agent["params.config.central_value_config.minibatch_size_per_env"] = 2
    runs = train_ranks(FakeWorld(2), task=task, agent=agent)
    assert not differing(runs)
    assert any(tensor.dim() == 4 for tensor in runs[0].state().values())
