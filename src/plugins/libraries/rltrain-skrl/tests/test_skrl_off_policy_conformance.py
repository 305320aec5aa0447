from __future__ import annotations

import pytest

from rltrain_devkit import LibraryConformance

pytestmark = pytest.mark.slow

SMALL = {
    "agent.random_timesteps": 1,
    "agent.learning_starts": 2,
    "agent.batch_size": 8,
    "agent.experiment.write_interval": 5,
    "memory.memory_size": 12,
    "memory.save_replay_buffer": True,
}


class TestSkrlSAC(LibraryConformance):
    library = "skrl"
    algorithm = "sac"
    agent = SMALL
    scaled = ("agent.batch_size",)
    rank_local = ("skrl:config.torch",)
    # Without noise they act as a loaded policy does.
    variants = {
        "td3": {"algorithm": "td3", "agent": {"agent.exploration_noise": None}},
        "ddpg": {"algorithm": "ddpg", "agent": {"agent.exploration_noise": None}},
        "clipped": {"agent": {"agent.grad_norm_clip": 0.5, "agent.gradient_steps": 2}},
    }


class TestSkrlDQN(LibraryConformance):
    library = "skrl"
    algorithm = "dqn"
    task = "rltrain/CartPole-v1"
    # After its first, random steps it acts as a loaded policy does: without chance.
    agent = {**SMALL, "agent.exploration_scheduler": "0.0"}
    scaled = ("agent.batch_size",)
    rank_local = ("skrl:config.torch",)
    variants = {"ddqn": {"algorithm": "ddqn"}}
