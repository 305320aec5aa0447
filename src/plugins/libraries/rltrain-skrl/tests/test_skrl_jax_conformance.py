from __future__ import annotations

import pytest

from rltrain_devkit import LibraryConformance

pytest.importorskip("jax")

pytestmark = pytest.mark.slow  # It compiles several trainings.


class TestSkrlJax(LibraryConformance):
    library = "skrl"
    framework = "jax"
    agent = {"agent.rollouts": 8, "agent.learning_epochs": 2}
    rank_local = ("skrl:config.torch", "skrl:config.jax")
    variants = {"discrete": {"task": "rltrain/CartPole-v1"}}
