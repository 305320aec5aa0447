"""What SB3 sees of the session's environments; `NumpyEnv` has tests of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from rltrain.errors import UsageError
from rltrain_sb3.env import SessionVecEnv

BOX = spaces.Box(-1, 1, (2,))


class Scripted(VectorEnv):
    """Two environments with observation groups: the first terminates in each step."""

    num_envs = 2
    single_observation_space = spaces.Dict(policy=BOX, critic=BOX)

    def __init__(self, action_space=BOX):
        self.single_action_space = action_space

    def reset(self, *, seed=None, options=None):
        return {"policy": torch.zeros(2, 2), "critic": torch.ones(2, 2)}, {}

    def step(self, actions):
        self.actions = actions
        ended, never = torch.tensor([True, False]), torch.tensor([False, False])
        final = {"policy": torch.full((2, 2), 5.0), "critic": torch.ones(2, 2)}
        info = {"final_obs": final, "_final_obs": ended}
        return self.reset()[0], actions[:, 0], ended, never, info


def test_sb3_steps_the_environments():
    scripted = Scripted()
    env = SessionVecEnv(scripted, "cpu")
    assert (env.observation_space, env.num_envs) == (BOX, 2)
    assert env.reset().tolist() == [[0, 0]] * 2
    _, rewards, dones, infos = env.step(np.array([[0.5, 0], [1, 0]], np.float32))
    assert (rewards.tolist(), dones.tolist()) == ([0.5, 1], [True, False])
    assert infos[0]["terminal_observation"].tolist() == [5, 5]


def test_actions_without_bounds_are_refused():
    with pytest.raises(UsageError, match="have no bounds"):
        SessionVecEnv(Scripted(spaces.Box(-np.inf, np.inf, (2,))), "cpu")
