from __future__ import annotations

from rltrain_devkit import LibraryConformance

SIGHT = {"agent.rollouts": 4, "agent.mini_batches": 2}


class TestSkrl(LibraryConformance):
    library = "skrl"
    agent = {"agent.rollouts": 8, "agent.learning_epochs": 2}
    rank_local = ("skrl:config.torch",)
    variants = {
        "rpo": {"algorithm": "rpo"},
        "discrete": {"task": "rltrain/CartPole-v1"},
        "adaptive learning rate": {"agent": {"agent.learning_rate_scheduler": "KLAdaptiveLR"}},
        "one network": {"agent": {"models.separate": False}},
        "images, state for the critic": {
            "task": "rltrain/CartPoleContinuousCamera-v1",
            "agent": SIGHT,
        },
        "images beside vectors": {
            "task": "rltrain/CartPoleContinuousCameraAndMotion-v1",
            "agent": SIGHT,
        },
    }
