"""The claims of rl_games."""

from __future__ import annotations

import functools
from typing import Any

from claim import Claim
from shard_envs import BESIDE, CAMERA, task

SHORT = {
    "params.config.horizon_length": 16,
    "params.config.mini_epochs": 3,
    "params.config.minibatch_size_per_env": 16,
    "params.config.learning_rate": 3e-4,
}
FOUR = {**SHORT, "params.config.minibatch_size_per_env": 4}
PPO = functools.partial(Claim, library="rl_games", algorithm="ppo", cut="environments")

IMAGES = {
    "+params.network.cnn": {
        "type": "conv2d",
        "activation": "elu",
        "initializer": {"name": "default"},
        "convs": [{"filters": 4, "kernel_size": 3, "strides": 2, "padding": 0}],
    }
}


def critic(**network: Any) -> dict[str, Any]:
    """Return the options of an asymmetric critic.

    Args:
        **network: options of its network besides the layers.
    """
    return {
        "+params.config.central_value_config": {
            "minibatch_size_per_env": 4,
            "mini_epochs": 3,
            "learning_rate": 3e-4,
            "clip_value": True,
            "normalize_input": True,
            "truncate_grads": True,
            "network": {
                "name": "actor_critic",
                "central_value": True,
                "mlp": {"units": [32], "activation": "elu", "initializer": {"name": "default"}},
                **network,
            },
        }
    }


def recurrent(kind: str) -> dict[str, Any]:
    """Return the options that make the network recurrent."""
    return {
        "+params.network.rnn": {"name": kind, "units": 16, "layers": 1},
        "params.config.seq_length": 8,
    }


RL_GAMES = (
    PPO(features="observation and value normalizers, adaptive learning rate", agent=SHORT),
    PPO(features="4 mini-batches", agent=FOUR, mini_batches=4, on_gloo=True),
    PPO(
        features="compiled (`torch_compile`)", agent={**SHORT, "+params.config.torch_compile": True}
    ),
    PPO(
        features="advantages not normalized",
        agent={**FOUR, "params.config.normalize_advantage": False},
        mini_batches=4,
    ),
    PPO(
        features="nothing is normalized",
        agent={
            **FOUR,
            "params.config.normalize_advantage": False,
            "params.config.normalize_input": False,
            "params.config.normalize_value": False,
        },
        mini_batches=4,
    ),
    PPO(
        features="learning rate adapted once per mini-epoch (`standard`)",
        agent={**FOUR, "params.config.schedule_type": "standard"},
        mini_batches=4,
    ),
    PPO(
        features="linear learning rate and entropy coefficient",
        agent={
            **FOUR,
            "params.config.lr_schedule": "linear",
            "params.config.entropy_coef": 0.01,
            "params.config.schedule_entropy": True,
        },
        mini_batches=4,
    ),
    PPO(
        features="learning rate linear in the frames of all ranks",
        agent={
            **FOUR,
            "params.config.lr_schedule": "linear",
            "params.config.max_epochs": -1,
            "params.config.max_frames": 1024,  # 4 iterations of 2 ranks, 2 of 4.
        },
        max_iterations=None,
        mini_batches=4,
    ),
    PPO(
        features="separate networks, entropy bonus, weight decay, values not normalized",
        agent={
            **FOUR,
            "params.network.separate": True,
            "params.config.entropy_coef": 0.01,
            "params.config.weight_decay": 1e-4,
            "params.config.truncate_grads": False,
            "params.config.normalize_value": False,
        },
        mini_batches=4,
    ),
    PPO(features="discrete actions", task="rltrain/CartPole-v1", agent=FOUR, mini_batches=4),
    PPO(
        features="discrete actions, learning rate adapted once per mini-epoch (`standard`)",
        task="rltrain/CartPole-v1",
        agent={**FOUR, "params.config.schedule_type": "standard"},
        mini_batches=4,
    ),
    PPO(
        features="multi-discrete actions",
        **task(actions="multi-discrete"),
        agent=FOUR,
        mini_batches=4,
    ),
    PPO(
        features="images of floats, normalized by pixel",
        agent={**FOUR, **IMAGES},
        **task("images of floats"),
        mini_batches=4,
    ),
    PPO(
        features="images of bytes, the state for the critic",
        task=CAMERA,
        agent={
            **FOUR,
            "params.config.central_value_config.minibatch_size_per_env": 4,
            "params.config.central_value_config.mini_epochs": 3,
        },
        mini_batches=4,
    ),
    PPO(
        features="images of bytes with a normalized vector", task=BESIDE, agent=FOUR, mini_batches=4
    ),
    PPO(
        features="asymmetric critic (central_value_config) with its own normalizer",
        agent={**FOUR, **critic()},
        **task("policy and critic"),
        mini_batches=4,
    ),
    PPO(
        features="recurrent, asymmetric critic",
        agent={**FOUR, **critic(), **recurrent("lstm")},
        **task("policy and critic"),
        mini_batches=4,
    ),
    PPO(
        features="recurrent, recurrent asymmetric critic",
        agent={
            **FOUR,
            **critic(rnn={"name": "gru", "units": 16, "layers": 1}),
            **recurrent("lstm"),
        },
        **task("policy and critic"),
        mini_batches=4,
    ),
    PPO(
        features="recurrent, images of floats",
        agent={**FOUR, **IMAGES, **recurrent("gru")},
        **task("images of floats"),
        mini_batches=4,
    ),
    PPO(features="recurrent, GRU", agent={**FOUR, **recurrent("gru")}, mini_batches=4),
    PPO(features="recurrent, LSTM", agent={**FOUR, **recurrent("lstm")}, mini_batches=4),
    PPO(
        features="recurrent, discrete actions",
        task="rltrain/CartPole-v1",
        agent={**FOUR, **recurrent("gru")},
        mini_batches=4,
    ),
    Claim(
        library="rl_games",
        algorithm="sac",
        features="observation normalizer, learned temperature, a replay buffer per rank",
        agent={
            "params.config.num_steps_per_episode": 8,
            "params.config.num_updates_per_step": 2,
            "params.config.num_warmup_frames": 128,
            "params.config.batch_size": 16,
            "params.config.replay_buffer_size": 96,
        },
        scaled=("params.config.batch_size", "params.config.replay_buffer_size"),
        batch_size=16,
        on_gloo=True,
    ),
)
