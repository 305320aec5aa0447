"""The suite passes the conformance kit, on a task of each kind that it makes."""

from __future__ import annotations

from rltrain_devkit import SuiteConformance


class TestMuJoCo(SuiteConformance):
    suite = "envpool"
    task = "envpool/HalfCheetah-v4"
    env = {"max_episode_steps": 15, "num_threads": 1}
    ends = False


class TestDiscrete(SuiteConformance):
    suite = "envpool"
    task = "envpool/CartPole-v1"
    env = {"max_episode_steps": 15}


class TestRobotWithGroups(SuiteConformance):
    suite = "envpool"
    task = "envpool/Go1JoystickFlatTerrain-v1"
    env = {"max_episode_steps": 15, "num_threads": 1}
    num_envs = 2
    ends = False


class TestContinuousOfJax(SuiteConformance):
    suite = "envpool"
    task = "envpool/Pendulum-v1"
    framework = "jax"
    env = {"max_episode_steps": 15}
    ends = False
