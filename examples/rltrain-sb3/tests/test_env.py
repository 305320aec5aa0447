"""What SB3 sees of the session's environments."""

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
        self.rewards, self.observations, self.steps = torch.ones(3), torch.zeros(3, 2), 0

    def reset(self, *, seed=None, options=None):
        return self._observed(self.observations), {}

    def step(self, actions):
        self.actions = actions
        self.steps += 1
        self.observations.fill_(self.steps)  # In place, as simulators do.
        terminations = torch.tensor([True, False, False])
        truncations = torch.tensor([True, True, False])
        info = {"final_obs": self._observed(FINAL), "_final_obs": terminations | truncations}
        info["log"] = {"height": torch.tensor([1.0, 2.0, 3.0 * self.steps]), "level": 4}
        return self._observed(self.observations), self.rewards, terminations, truncations, info

    def _observed(self, observations):
        if isinstance(self.single_observation_space, spaces.Dict):
            return {"policy": observations, "critic": observations - 1}
        return observations


def step(env):
    return env.step(np.zeros((3, 2), np.float32))


def test_an_ended_episode_has_its_last_observation_and_says_how_it_ended():
    observations, rewards, dones, infos = step(SessionVecEnv(Scripted(), "cpu"))
    assert (observations.shape, rewards.tolist()) == ((3, 2), [1, 1, 1])
    assert dones.tolist() == [True, True, False]
    assert [info.get("TimeLimit.truncated") for info in infos] == [False, True, None]
    assert infos[1]["terminal_observation"].tolist() == [2, 2]
    assert infos[2] == {}


def test_arrays_are_the_librarys_own_and_actions_are_tensors():
    scripted = Scripted()
    env = SessionVecEnv(scripted, "cpu")
    first = env.reset()
    second, rewards, _, _ = step(env)
    rewards += 1
    step(env)
    assert (first.tolist(), second.tolist()) == ([[0, 0]] * 3, [[1, 1]] * 3)
    assert scripted.rewards.tolist() == [1, 1, 1]
    assert isinstance(scripted.actions, torch.Tensor)


def test_of_observation_groups_one_is_read():
    env = SessionVecEnv(Scripted(spaces.Dict(policy=BOX, critic=BOX)), "cpu")
    assert (env.observation_space, env.action_space, env.num_envs) == (BOX, BOX, 3)
    assert env.reset().tolist() == [[0, 0]] * 3
    observations, _, _, infos = step(env)
    assert observations.tolist() == [[1, 1]] * 3
    assert infos[0]["terminal_observation"].tolist() == [1, 1]


def test_what_the_task_logs_is_averaged_over_environments_and_steps():
    env = SessionVecEnv(Scripted(), "cpu")
    step(env), step(env)
    assert env.take_log() == {"height": 2.5, "level": 4}
    assert env.take_log() == {}


@pytest.mark.parametrize(
    ("spaces_", "said"),
    [
        ({"action_space": spaces.Box(-np.inf, np.inf, (2,))}, "have no bounds"),
        ({"space": spaces.Dict(left=BOX, right=BOX)}, "groups are left, right; SB3 needs one"),
    ],
)
def test_spaces_that_sb3_cannot_learn_are_refused(spaces_, said):
    with pytest.raises(UsageError, match=said):
        SessionVecEnv(Scripted(**spaces_), "cpu")
