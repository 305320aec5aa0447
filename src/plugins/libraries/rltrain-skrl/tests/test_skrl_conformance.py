from __future__ import annotations

from rltrain_devkit import LibraryConformance

SIGHT = {"agent.rollouts": 4, "agent.mini_batches": 2}


class TestSkrl(LibraryConformance):
    library = "skrl"
    agent = {"agent.rollouts": 8}
    rank_local = ("skrl:config.torch",)
    variants = {
        "rpo": {"algorithm": "rpo"},
        "a2c": {"algorithm": "a2c"},
        "clipped": {
            "agent": {"models.policy.clip_mean_actions": True, "models.policy.clip_actions": True}
        },
        "multivariate": {"agent": {"models.policy.class": "MultivariateGaussianMixin"}},
        "nothing scaled": {"agent": {"agent.observation_preprocessor": None}},
        "discrete": {"task": "rltrain/CartPole-v1"},
        "discrete, of probabilities": {
            "task": "rltrain/CartPole-v1",
            "agent": {
                "models.policy.unnormalized_log_prob": False,
                "models.policy.output": "sigmoid(ACTIONS)",
            },
        },
        "adaptive learning rate": {"agent": {"agent.learning_rate_scheduler": "KLAdaptiveLR"}},
        "stepped learning rate": {
            "task": "rltrain/Pendulum-v1",  # Its defaults have no schedule.
            "env": {"max_episode_length": 5},
            "agent": {
                "agent.learning_rate_scheduler": "__import__('torch').optim.lr_scheduler.StepLR",
                "+agent.learning_rate_scheduler_kwargs": {"step_size": 3, "gamma": 0.9},
            },
        },
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
