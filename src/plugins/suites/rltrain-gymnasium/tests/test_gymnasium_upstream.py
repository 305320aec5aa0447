"""What is done otherwise than in Gymnasium, against the installed version."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rltrain_gymnasium.upstream import AnyInfoVectorEnv

SOME, MORE, NONE = np.arange(2.0), np.arange(3.0), np.zeros((0, 3))
INFOS = [[SOME, MORE], [NONE, SOME], [1.0, "far"], [1, 2**80], [SOME, {"at": 1.0}]]
KNOWN = [[SOME, SOME + 1], [1.0, 2.0], [True, False], ["a", "b"], [{"at": 1.0}, {"at": 2.0}]]


class Telling(gymnasium.Env):
    """Tells a value in its infos, and ends in its second step."""

    observation_space, action_space = Box(-1.0, 1.0, (1,)), Discrete(2)

    def __init__(self, value):
        self.info = {"before": 1.0, "value": value, "is_success": True}

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), dict(self.info)

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 0.0, self.steps == 2, False, dict(self.info)


def rollout(kind, values):
    """Return the infos of a reset, a step and a step that ends the episodes."""
    creators = [lambda value=value: Telling(value) for value in values]
    env = kind(creators, autoreset_mode=AutoresetMode.SAME_STEP)
    infos = [env.reset(seed=0)[1]]
    return infos + [env.step(np.zeros(len(values), np.int64))[-1] for _ in range(2)]


@pytest.mark.parametrize("values", INFOS, ids=str)
def test_infos_need_not_fit(values):
    with pytest.raises((AttributeError, OverflowError, TypeError, ValueError)):
        rollout(SyncVectorEnv, values)  # If it does not raise, we need not do otherwise.
    first, second, last = rollout(AnyInfoVectorEnv, values)
    for infos in (first, second, last, last["final_info"]):
        assert infos["value"].dtype == object
        for told, value in zip(infos["value"], values, strict=True):
            np.testing.assert_equal(told, value)
        assert infos["_value"].tolist() == [True, True]
        assert infos["before"].tolist() == [1.0, 1.0]
        assert infos["is_success"].tolist() == [True, True]


@pytest.mark.parametrize("values", KNOWN, ids=str)
def test_infos_that_fit_are_gymnasiums(values):
    np.testing.assert_equal(rollout(AnyInfoVectorEnv, values), rollout(SyncVectorEnv, values))


def test_a_value_that_only_some_environments_tell():
    values = [1.0, SOME, None, MORE]
    env = AnyInfoVectorEnv([lambda value=value: Telling(value) for value in values])
    del env.envs[2].info["value"]
    infos = env.reset(seed=0)[1]
    np.testing.assert_equal(list(infos["value"]), [1.0, SOME, None, MORE])
    assert infos["_value"].tolist() == [True, True, False, True]
