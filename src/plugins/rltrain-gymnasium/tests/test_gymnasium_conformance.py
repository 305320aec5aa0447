"""The suite is what every suite must be, on a task of each kind that it makes."""

from __future__ import annotations

from rltrain.testing import SuiteConformance


class TestContinuous(SuiteConformance):
    suite = "gymnasium"
    task = "rltrain/CartPoleContinuous-v1"
    env = {"max_episode_length": 15}


class TestDiscrete(SuiteConformance):
    suite = "gymnasium"
    task = "rltrain/CartPole-v1"
    env = {"max_episode_length": 15}


class TestConvertedDiscrete(SuiteConformance):
    suite = "gymnasium"
    task = "CartPole-v1"
    env = {"max_episode_steps": 15}


class TestConvertedContinuous(SuiteConformance):
    suite = "gymnasium"
    task = "Pendulum-v1"
    env = {"max_episode_steps": 15}
    ends = False


class TestContinuousOfJax(SuiteConformance):
    suite = "gymnasium"
    task = "rltrain/CartPoleContinuous-v1"
    framework = "jax"
    env = {"max_episode_length": 15}


class TestDiscreteOfJax(SuiteConformance):
    suite = "gymnasium"
    task = "rltrain/CartPole-v1"
    framework = "jax"
    env = {"max_episode_length": 15}


class TestConvertedToJax(SuiteConformance):
    suite = "gymnasium"
    task = "CartPole-v1"
    framework = "jax"
    env = {"max_episode_steps": 15}


class TestImages(SuiteConformance):
    suite = "gymnasium"
    task = "rltrain/CartPoleContinuousCamera-v1"
    env = {"max_episode_length": 15}


class TestImagesBesideVectors(SuiteConformance):
    suite = "gymnasium"
    task = "rltrain/CartPoleContinuousCameraAndMotion-v1"
    env = {"max_episode_length": 15}


class TestImagesOfJax(SuiteConformance):
    suite = "gymnasium"
    task = "rltrain/CartPoleCamera-v1"
    framework = "jax"
    env = {"max_episode_length": 15}
