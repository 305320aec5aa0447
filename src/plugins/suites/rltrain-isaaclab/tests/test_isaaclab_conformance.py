"""The suite passes the conformance kit, on a task of each kind."""

from __future__ import annotations

import importlib.util

import pytest

from rltrain_devkit import SuiteConformance


class OnIsaacLab(SuiteConformance):
    suite = "isaaclab"
    env = {"episode_length_s": 0.5}


class TestManagerBased(OnIsaacLab):
    task = "Isaac-Cartpole-v0"


class TestAsymmetric(OnIsaacLab):
    task = "Isaac-Cartpole-Asymmetric-Direct-v0"


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
class TestAsymmetricOfJax(TestAsymmetric):
    framework = "jax"


class TestCamera(OnIsaacLab):
    task = "Isaac-Cartpole-RGB-Camera-Direct-v0"


class TestDiscrete(OnIsaacLab):
    task = "Isaac-Cartpole-Discrete-Direct-v0"


del OnIsaacLab
