"""The suite passes the conformance kit, on a task of Playground's and on one of a user's."""

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


@pytest.mark.slow
class TestPoint(SuiteConformance):
    """Its episodes terminate, and it has groups and metrics."""

    suite = "playground"
    task = "playground_point:Point"
    framework = "jax"

    def test_the_task_is_described(self):
        """No list has it: only its module knows of it."""
        assert self.info().name == self.task
