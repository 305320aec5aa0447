"""Options under `params.env`, as in Isaac Lab's files, and images."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from messages import says

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.testing import make_config
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.run.agents import ContinuousAgent
from rltrain_rl_games.run.env import RlGamesEnv, adapted_env, check_observations
from rltrain_rl_games.run.networks import GroupsNetwork
from rltrain_rl_games.run.spaces import Wrapping


class Unbounded:
    """Two environments that return their actions; unbounded, like Isaac Lab's."""

    single_action_space = Box(-np.inf, np.inf, (1,))
    single_observation_space = Dict(
        {
            "policy": Box(-np.inf, np.inf, (1,)),
            "critic": Box(-np.inf, np.inf, (2,)),
            "image": Box(0, 255, (2, 2, 3), np.uint8),
        }
    )

    def step(self, actions):
        image = torch.full((2, 2, 2, 3), 200, dtype=torch.uint8)
        groups = {"policy": actions, "critic": torch.full((2, 2), 7.0), "image": image}
        no = torch.zeros(2, dtype=torch.bool)
        return groups, torch.ones(2), no, no, {}


def wrapped(states=False, **options):
    return RlGamesEnv(Unbounded(), states, Wrapping.read({"env": options}))


def test_observations_and_actions_are_clipped():
    env = wrapped(states=True, clip_observations=5.0, clip_actions=3)
    info = env.get_env_info()
    assert info["action_space"] == Box(-3.0, 3.0, (1,))
    assert info["observation_space"] == Box(-5.0, 5.0, (1,))
    assert info["state_space"] == Box(-5.0, 5.0, (2,))
    observed, *_ = env.step(torch.tensor([[-9.0], [2.0]]))
    assert observed["obs"].tolist() == [[-3.0], [2.0]]
    assert observed["states"].tolist() == [[5.0, 5.0]] * 2


def test_unbounded_actions_get_rl_games_bounds_and_pass_unchanged():
    env = wrapped()
    assert env.get_env_info()["action_space"] == Box(-1.0, 1.0, (1,))
    assert env.get_env_info()["observation_space"] == Box(-np.inf, np.inf, (1,))
    assert env.step(torch.tensor([[-9.0], [2.0]]))[0].tolist() == [[-9.0], [2.0]]
    bounded = Box(-2.0, 2.0, (1,))
    assert Wrapping(clip_actions=1.0).action_space(bounded) == bounded


def test_groups_are_concatenated():
    env = wrapped(states=True, obs_groups={"obs": ["policy", "critic"], "states": []})
    assert env.get_env_info()["observation_space"].shape == (3,)
    assert env.get_env_info()["state_space"].shape == (2,)
    observed, *_ = env.step(torch.zeros(2, 1))
    assert observed["obs"].tolist() == [[0.0, 7.0, 7.0]] * 2


def test_networks_that_take_channels_first_get_them():
    env = wrapped(obs_groups={"obs": ["image"]}, clip_observations=5.0)
    assert env.get_env_info()["observation_space"].shape == (2, 2, 3)
    network = {"name": "actor_critic", "cnn": {"permute_input": False}}
    params = {"env": {"obs_groups": {"obs": ["image"]}}, "network": network}
    env = RlGamesEnv(Unbounded(), False, Wrapping.read(params))
    assert env.get_env_info()["observation_space"] == Box(0, 255, (3, 2, 2), np.uint8)
    assert env.step(torch.zeros(2, 1))[0].shape == (2, 3, 2, 2)


PPO = {"algo": {"name": "a2c_continuous"}, "network": {"name": "actor_critic"}}
STATE = Box(-9.0, 9.0, (4,))


@pytest.mark.parametrize(
    ("space", "algorithm"),
    [
        (Dict({"policy": Dict({"state": STATE})}), "a2c_continuous"),
        (Dict({"policy": Tuple([STATE])}), "a2c_continuous"),
        (Discrete(2), "a2c_continuous"),
        (Dict({"state": STATE}), "a2c_continuous"),
        (Box(0, 255, (2, 2, 3), np.uint8), "sac"),
        (None, "a2c_continuous"),
    ],
)
def test_observations_that_rl_games_cannot_take_are_refused(space, algorithm):
    env = Unbounded()
    env.single_observation_space = space or env.single_observation_space
    with says(UsageError):
        adapted_env(env, {**PPO, "algo": {"name": algorithm}, "config": {}})


def test_groups_stay_separate_for_the_network_that_takes_them():
    env_options = {"obs_groups": {"obs": ["policy", "image"]}, "concate_obs_groups": False}
    params = {**PPO, "network": {"name": "actor_critic_groups"}, "env": env_options}
    env = RlGamesEnv(Unbounded(), True, Wrapping.read(params))
    check_observations(env, params)
    space = env.get_env_info()["observation_space"]
    assert {name: part.shape for name, part in space.items()} == {
        "image": (2, 2, 3),
        "policy": (1,),
    }
    observed, *_ = env.step(torch.zeros(2, 1))
    assert observed["obs"]["image"].dtype == torch.uint8
    assert observed["states"].shape == (2, 2)
    with says(UsageError):
        Wrapping.read({**params, "env": {}})


def test_bytes_are_not_clipped():
    env = wrapped(clip_observations=5.0, obs_groups={"obs": ["image"]})
    assert env.get_env_info()["observation_space"].dtype == np.uint8
    assert env.step(torch.zeros(2, 1))[0].max() == 200


@pytest.mark.parametrize(
    "options",
    [
        {"clip_actions": True},
        {"clip_observations": -1},
        {"concate_obs_groups": False},
        {"obs_groups": {"obs": ["policy", "image"]}},
        {"obs_groups": {"obs": ["polcy"]}},
    ],
)
def test_invalid_values_are_refused(options):
    with says(UsageError):
        wrapped(**options).get_env_info()


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
