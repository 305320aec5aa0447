from __future__ import annotations

import rl_games_envs
from rl_games_envs import ASYMMETRIC, BOTH_RECURRENT, LSTM, RECURRENT, cnn

from rltrain_devkit import LibraryConformance

EPISODES = {"max_episode_length": 6}
SEPARATE = {**LSTM, "params.network.separate": True}
CRITIC_BATCH = {"params.config.central_value_config.minibatch_size_per_env": 2}
SIGHT = {"params.config.horizon_length": 4, "params.config.minibatch_size": 16}
CAMERA = "rltrain/CartPoleContinuousCamera-v1"
BESIDE = "rltrain/CartPoleContinuousCameraAndMotion-v1"
LINEAR = {
    "params.config.lr_schedule": "linear",
    "params.config.schedule_entropy": True,
    "params.config.entropy_coef": 0.01,
}


class TestRlGames(LibraryConformance):
    library = "rl_games"
    agent = {"params.config.horizon_length": 8, "params.config.minibatch_size": 32}
    # Its mini-batches are of neighboring environments: one is of all.
    as_one = {"params.config.minibatch_size": 64}
    scaled = ("params.config.minibatch_size",)
    plugins = [rl_games_envs]
    variants = {
        "discrete": {"task": "rltrain/CartPole-v1", "env": EPISODES},
        "linear schedules": {"agent": LINEAR},
        "multi-discrete": {"task": "made/TwoChoices"},
        "gru": {"agent": RECURRENT, "env": EPISODES},
        "lstm of actor and critic": {"agent": SEPARATE, "env": EPISODES},
        "critic of its own": {"task": "made/Groups", "agent": {**ASYMMETRIC, **CRITIC_BATCH}},
        "recurrent critic of its own": {
            "task": "made/Groups",
            "agent": {**BOTH_RECURRENT, **CRITIC_BATCH},
        },
        "images of bytes": {"task": "made/Images", "agent": cnn(True)},
        "images, channels first": {"task": "made/FloatImages", "agent": cnn(False)},
        "images by default, state for the critic": {
            "task": CAMERA,
            "agent": {**SIGHT, **CRITIC_BATCH},
        },
        "images, discrete": {"task": "rltrain/CartPoleCamera-v1", "agent": SIGHT},
        "images beside vectors": {"task": BESIDE, "agent": SIGHT},
        "images beside vectors, critic of its own": {
            "task": BESIDE,
            "agent": {**SIGHT, **ASYMMETRIC, **CRITIC_BATCH},
        },
    }


class TestRlGamesSac(LibraryConformance):
    library = "rl_games"
    algorithm = "sac"
    agent = {
        "params.network.mlp.units": [16, 16],
        "params.config.num_steps_per_episode": 4,
        "params.config.num_updates_per_step": 2,
        "params.config.num_warmup_frames": 128,
        "params.config.batch_size": 16,
        "params.config.replay_buffer_size": 512,
        "params.rltrain.save_replay_buffer": True,
    }
    scaled = ("params.config.batch_size", "params.config.replay_buffer_size")
    variants = {
        "clipped": {"agent": {"params.config.critic_grad_clip": 1e-3}},
        "fixed temperature": {"agent": {"params.config.learnable_temperature": False}},
    }
