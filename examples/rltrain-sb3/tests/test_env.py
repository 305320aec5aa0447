"""Converts the session's environments to SB3's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from rltrain.errors import UsageError
from rltrain_sb3.env import SessionVecEnv

BOX = spaces.Box(-1, 1, (2,))
FINAL = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])


class Scripted(VectorEnv):
    """Three environments: in each step the first terminates, and the second hits a time limit."""

    num_envs = 3

    def __init__(self, space=BOX, action_space=BOX):
        self.single_observation_space, self.single_action_space = space, action_space
        self.rewards = torch.ones(3)
        self.observations = torch.zeros(3, 2)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        return self._observed(self.observations), {}

    def step(self, actions):
        self.actions = actions
        self.steps += 1
        self.observations.fill_(self.steps)  # In place, as simulators do.
        terminations = torch.tensor([True, False, False])
        truncations = torch.tensor([True, True, False])
        info = {"final_obs": self._observed(FINAL), "_final_obs": terminations | truncations}
        return self._observed(self.observations), self.rewards, terminations, truncations, info

    def _observed(self, observations):
        if isinstance(self.single_observation_space, spaces.Dict):
            return {"policy": observations, "critic": observations - 1}
        return observations


def step(env):
    return env.step(np.zeros((3, 2), np.float32))


def test_a_finished_episode_ends_in_its_last_observation():
    _, rewards, dones, infos = step(SessionVecEnv(Scripted(), "cpu"))
    assert rewards.tolist() == [1, 1, 1]
    assert dones.tolist() == [True, True, False]
    assert [info.get("TimeLimit.truncated") for info in infos] == [False, True, None]
    assert infos[1]["terminal_observation"].tolist() == [2, 2]
    assert infos[2] == {}


def test_sb3_sees_the_group_policy():
    env = SessionVecEnv(Scripted(spaces.Dict(policy=BOX, critic=BOX)), "cpu")
    assert env.observation_space == BOX
    assert env.reset().tolist() == [[0, 0]] * 3
    observations, _, _, infos = step(env)
    assert observations.tolist() == [[1, 1]] * 3
    assert infos[0]["terminal_observation"].tolist() == [1, 1]


def test_groups_without_policy_are_refused():
    with pytest.raises(UsageError, match=r"groups are left, right; SB3 needs one named `policy`"):
        SessionVecEnv(Scripted(spaces.Dict(left=BOX, right=BOX)), "cpu")


def test_actions_without_bounds_are_refused():
    with pytest.raises(UsageError, match="have no bounds"):
        SessionVecEnv(Scripted(action_space=spaces.Box(-np.inf, np.inf, (2,))), "cpu")
