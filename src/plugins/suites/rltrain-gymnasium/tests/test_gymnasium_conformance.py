"""The suite passes the conformance kit, on a task of each kind that it makes."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from rltrain_devkit import SuiteConformance


class Levers(gymnasium.Env):
    """A point that two levers move: a direction, and one of three strengths."""

    observation_space = Box(-1.0, 1.0, (1,))
    action_space = MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5)
        return self.observe(), {}

    def step(self, action):
        self.x += (int(action[0]) * 2 - 1) * (1 + int(action[1])) / 10
        return self.observe(), 1.0 - abs(self.x), abs(self.x) > 0.9, False, {}

    def observe(self):
        return np.clip([self.x], -1, 1).astype(np.float32)


gymnasium.register("ConformanceLevers-v0", Levers, max_episode_steps=9)


class OnGymnasium(SuiteConformance):
    suite = "gymnasium"
    env = {"max_episode_length": 15}


class TestContinuous(OnGymnasium):
    task = "rltrain/CartPoleContinuous-v1"


class TestDiscrete(OnGymnasium):
    task = "rltrain/CartPole-v1"


class TestConvertedDiscrete(OnGymnasium):
    task = "CartPole-v1"
    env = {"max_episode_steps": 15}


class TestConvertedContinuous(OnGymnasium):
    task = "Pendulum-v1"
    env = {"max_episode_steps": 15}
    ends = False


class TestMultiDiscrete(OnGymnasium):
    task = "ConformanceLevers-v0"
    env = {}


class TestContinuousOfJax(TestContinuous):
    framework = "jax"


class TestDiscreteOfJax(TestDiscrete):
    framework = "jax"


class TestConvertedToJax(TestConvertedDiscrete):
    framework = "jax"


class TestImages(OnGymnasium):
    task = "rltrain/CartPoleContinuousCamera-v1"


class TestImagesBesideVectors(OnGymnasium):
    task = "rltrain/CartPoleContinuousCameraAndMotion-v1"


class TestImagesOfJax(OnGymnasium):
    task = "rltrain/CartPoleCamera-v1"
    framework = "jax"


del OnGymnasium
