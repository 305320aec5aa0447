"""The suite passes the conformance kit."""

from __future__ import annotations

import pytest

from rltrain_devkit import SuiteConformance


@pytest.mark.slow  # MuJoCo's physics takes minutes to compile on a busy machine.
class TestPlayground(SuiteConformance):
    suite = "playground"
    task = "CartpoleBalance"
    framework = "jax"
    env = {"episode_length": 15}
    ends = False
