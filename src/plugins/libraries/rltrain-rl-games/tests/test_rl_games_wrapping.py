"""Options under `params.env`, as in Isaac Lab's files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from rltrain.errors import UsageError
from rltrain_rl_games.run.env import RlGamesEnv, adapted_env, check_observations
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
    ("space", "algorithm", "message"),
    [
        (
            Dict({"policy": Dict({"state": STATE})}),
            "a2c_continuous",
            r"'policy' is, or contains, Dict\('state': Box",
        ),
        (Dict({"policy": Tuple([STATE])}), "a2c_continuous", r"'policy' is, or contains, Tuple\("),
        (
            Discrete(2),
            "a2c_continuous",
            r"'policy' is, or contains, Discrete.2., .* --library skrl",
        ),
        (Dict({"state": STATE}), "a2c_continuous", "no group 'policy', only state"),
        (Box(0, 255, (2, 2, 3), np.uint8), "sac", "SAC reads only vectors"),
        (None, "a2c_continuous", r"outside the group `policy`, image, .*obs_groups\.obs"),
    ],
)
def test_observations_that_rl_games_cannot_take_are_refused(space, algorithm, message):
    env = Unbounded()
    env.single_observation_space = space or env.single_observation_space
    with pytest.raises(UsageError, match=message):
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
    with pytest.raises(UsageError, match=r"network\.name=actor_critic_groups: reads several"):
        Wrapping.read({**params, "env": {}})


def test_bytes_are_not_clipped():
    env = wrapped(clip_observations=5.0, obs_groups={"obs": ["image"]})
    assert env.get_env_info()["observation_space"].dtype == np.uint8
    assert env.step(torch.zeros(2, 1))[0].max() == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_actions": True}, r"agent\.params\.env\.clip_actions=True: must be a number"),
        ({"clip_observations": -1}, r"clip_observations=-1: must be a number above 0"),
        ({"concate_obs_groups": False}, r"concate_obs_groups=false: .* actor_critic_groups reads"),
        ({"obs_groups": {"obs": ["policy", "image"]}}, "only groups that are vectors"),
        ({"obs_groups": {"obs": ["polcy"]}}, r"obs_groups\.obs=\['polcy'\]: must name"),
    ],
)
def test_invalid_values_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        wrapped(**options).get_env_info()
