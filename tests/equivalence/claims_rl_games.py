"""The claims of rl_games."""

from __future__ import annotations

import functools
from collections.abc import Mapping
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
VALUE = "params.config.central_value_config"
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
    return {
        f"+{VALUE}": {
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
    return {
        "+params.network.rnn": {"name": kind, "units": 16, "layers": 1},
        "params.config.seq_length": 8,
    }


def four(features: str, agent: Mapping[str, Any] | None = None, **more: Any) -> Claim:
    return PPO(features=features, agent={**FOUR, **(agent or {})}, mini_batches=4, **more)


def config(**options: Any) -> dict[str, Any]:
    return {f"params.config.{name}": value for name, value in options.items()}


DISCRETE = "rltrain/CartPole-v1"
CRITIC = task("policy and critic")
FLOATS = task("images of floats")
STANDARD = config(schedule_type="standard")

RL_GAMES = (
    PPO(features="observation and value normalizers, adaptive learning rate", agent=SHORT),
    four("4 mini-batches", on_gloo=True),
    PPO(
        features="compiled (`torch_compile`)", agent={**SHORT, "+params.config.torch_compile": True}
    ),
    four("advantages not normalized", config(normalize_advantage=False)),
    four(
        "nothing is normalized",
        config(normalize_advantage=False, normalize_input=False, normalize_value=False),
    ),
    four("learning rate adapted once per mini-epoch (`standard`)", STANDARD),
    four(
        "linear learning rate and entropy coefficient",
        config(lr_schedule="linear", entropy_coef=0.01, schedule_entropy=True),
    ),
    four(
        "learning rate linear in the frames of all ranks",
        # 4 iterations of 2 ranks, 2 of 4.
        config(lr_schedule="linear", max_epochs=-1, max_frames=1024),
        max_iterations=None,
    ),
    four(
        "separate networks, entropy bonus, weight decay, values not normalized",
        {
            "params.network.separate": True,
            **config(entropy_coef=0.01, weight_decay=1e-4, truncate_grads=False),
            **config(normalize_value=False),
        },
    ),
    four("discrete actions", task=DISCRETE),
    four(
        "discrete actions, learning rate adapted once per mini-epoch (`standard`)",
        STANDARD,
        task=DISCRETE,
    ),
    four("multi-discrete actions", **task(actions="multi-discrete")),
    four("images of floats, normalized by pixel", IMAGES, **FLOATS),
    four(
        "images of bytes, the state for the critic",
        {f"{VALUE}.minibatch_size_per_env": 4, f"{VALUE}.mini_epochs": 3},
        task=CAMERA,
    ),
    four("images of bytes with a normalized vector", task=BESIDE),
    four("asymmetric critic (central_value_config) with its own normalizer", critic(), **CRITIC),
    four("recurrent, asymmetric critic", {**critic(), **recurrent("lstm")}, **CRITIC),
    four(
        "recurrent, recurrent asymmetric critic",
        {**critic(rnn={"name": "gru", "units": 16, "layers": 1}), **recurrent("lstm")},
        **CRITIC,
    ),
    four("recurrent, images of floats", {**IMAGES, **recurrent("gru")}, **FLOATS),
    four("recurrent, GRU", recurrent("gru")),
    four("recurrent, LSTM", recurrent("lstm")),
    four("recurrent, discrete actions", recurrent("gru"), task=DISCRETE),
    Claim(
        library="rl_games",
        algorithm="sac",
        features="observation normalizer, learned temperature, a replay buffer per rank",
        agent={
            **config(num_steps_per_episode=8, num_updates_per_step=2, num_warmup_frames=128),
            **config(batch_size=16, replay_buffer_size=96),
        },
        scaled=("params.config.batch_size", "params.config.replay_buffer_size"),
        batch_size=16,
        on_gloo=True,
    ),
)
