from __future__ import annotations

import rl_games_envs
from rl_games_envs import VARIANTS

from rltrain_devkit import LibraryConformance


class TestRlGames(LibraryConformance):
    library = "rl_games"
    agent = {"params.config.horizon_length": 8, "params.config.minibatch_size": 32}
    # Its mini-batches are of neighboring environments: one is of all.
    as_one = {"params.config.minibatch_size": 64}
    scaled = ("params.config.minibatch_size",)
    plugins = [rl_games_envs]
    variants = VARIANTS


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
