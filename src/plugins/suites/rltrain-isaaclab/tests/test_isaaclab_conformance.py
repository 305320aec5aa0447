"""The suite passes the conformance kit, on a task of each kind."""

from __future__ import annotations

from rltrain_devkit import SuiteConformance


class TestManagerBased(SuiteConformance):
    suite = "isaaclab"
    task = "Isaac-Cartpole-v0"
    env = {"episode_length_s": 0.5}


class TestAsymmetric(SuiteConformance):
    suite = "isaaclab"
    task = "Isaac-Cartpole-Asymmetric-Direct-v0"
    env = {"episode_length_s": 0.5}


class TestCamera(SuiteConformance):
    suite = "isaaclab"
    task = "Isaac-Cartpole-RGB-Camera-Direct-v0"
    env = {"episode_length_s": 0.5}


class TestDiscrete(SuiteConformance):
    suite = "isaaclab"
    task = "Isaac-Cartpole-Discrete-Direct-v0"
    env = {"episode_length_s": 0.5}
