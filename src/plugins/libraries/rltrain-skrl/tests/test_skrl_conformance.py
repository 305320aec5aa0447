from __future__ import annotations

from rltrain_devkit import LibraryConformance


class TestSkrl(LibraryConformance):
    library = "skrl"
    agent = {"agent.rollouts": 8, "agent.learning_epochs": 2}
    rank_local = ("skrl:config.torch",)
