"""The claims of rsl_rl."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from claim import Claim
from shard_envs import BESIDE, CAMERA, task

SHORT = {
    "num_steps_per_env": 16,
    "algorithm.num_learning_epochs": 3,
    "algorithm.num_mini_batches": 1,
    "algorithm.learning_rate": 3e-4,
}
FOUR = {**SHORT, "algorithm.num_mini_batches": 4}
TWO = {**SHORT, "algorithm.num_mini_batches": 2}
PPO = functools.partial(Claim, library="rsl_rl", algorithm="ppo")


def recurrent(kind: str, *models: str) -> dict[str, object]:
    return {
        f"{model}.{key}": value
        for model in models
        for key, value in (
            ("class_name", "RNNModel"),
            ("rnn_type", kind),
            ("rnn_hidden_dim", 16),
            ("rnn_num_layers", 1),
        )
    }


CNN = {"output_channels": [4], "kernel_size": [3], "stride": [2], "activation": "elu"}
IMAGES = {
    key: value
    for model in ("actor", "critic")
    for key, value in (
        (f"{model}.class_name", "CNNModel"),
        (f"{model}.obs_normalization", False),
        (f"+{model}.cnn_cfg", CNN),
    )
}


def symmetry(augments: bool, mirrors: bool) -> dict[str, object]:
    symmetric = {
        "data_augmentation_func": "shard_envs:mirrored",
        "use_data_augmentation": augments,
        "use_mirror_loss": mirrors,
        "mirror_loss_coeff": 0.5,
    }
    return {f"algorithm.symmetry_cfg.{key}": value for key, value in symmetric.items()}


NORMALIZED = ("algorithm.rnd_cfg.state_normalization", "algorithm.rnd_cfg.reward_normalization")
NOT_NORMALIZED = dict.fromkeys(NORMALIZED, False)
RND = {
    "obs_groups.rnd_state": ["policy"],
    "algorithm.rnd_cfg.weight": 0.1,
    "algorithm.rnd_cfg.num_outputs": 4,
    "algorithm.rnd_cfg.predictor_hidden_dims": [16],
    "algorithm.rnd_cfg.target_hidden_dims": [16],
    "algorithm.rnd_cfg.activation": "elu",
    **dict.fromkeys(NORMALIZED, True),
    "algorithm.rnd_cfg.learning_rate": 1e-3,
}


def four(features: str, agent: Mapping[str, Any] | None = None, **more: Any) -> Claim:
    return PPO(features=features, agent={**FOUR, **(agent or {})}, mini_batches=4, **more)


def by_environments(features: str, agent: Mapping[str, Any], kind: str, **more: Any) -> Claim:
    agent = {**agent, **recurrent(kind, "actor", "critic")}
    return PPO(features=features, agent=agent, cut="environments", **more)


def student(features: str, agent: Mapping[str, Any] | None = None) -> Claim:
    return Claim(
        library="rsl_rl",
        algorithm="distillation",
        features=features,
        agent={"num_steps_per_env": 16, "algorithm.gradient_length": 4, **(agent or {})},
        teacher=PPO(features="the teacher", agent=SHORT),
    )


FLOATS = task("images of floats")

RSL_RL = (
    PPO(features="observation normalizers, adaptive learning rate", agent=SHORT),
    four("4 mini-batches", on_gloo=True),
    PPO(
        features="compiled (`torch_compile_mode`)", agent={**SHORT, "torch_compile_mode": "default"}
    ),
    PPO(
        features="fixed learning rate, entropy bonus, clipped values",
        agent={
            **SHORT,
            "algorithm.schedule": "fixed",
            "algorithm.entropy_coef": 0.01,
            "algorithm.use_clipped_value_loss": True,
        },
    ),
    four(
        "advantages normalized per mini-batch",
        {"algorithm.normalize_advantage_per_mini_batch": True},
    ),
    PPO(
        features="random episode lengths at the start",
        agent={**SHORT, "init_at_random_ep_len": True},
    ),
    four(
        "asymmetric critic (observation group `critic`)",
        {"obs_groups.critic": ["critic"]},
        **task("policy and critic"),
    ),
    four("images of floats", IMAGES, **FLOATS),
    four(
        "images of floats, actor and critic with one encoder",
        {**IMAGES, "algorithm.share_cnn_encoders": True},
        **FLOATS,
    ),
    four("images of bytes, the state for the critic", task=CAMERA),
    four("images of bytes with a normalized vector", task=BESIDE),
    four(
        "standard deviation from the observations, fixed learning rate",
        {
            "actor.distribution_cfg.class_name": "HeteroscedasticGaussianDistribution",
            # With the adaptive one, rsl_rl asks in the first mini-batch whether a divergence that
            # is 0 but for rounding is above 0.
            "algorithm.schedule": "fixed",
        },
    ),
    by_environments("recurrent, LSTM", SHORT, "lstm"),
    by_environments("recurrent, GRU, 2 mini-batches", TWO, "gru", mini_batches=2),
    four("symmetry: data augmentation and mirror loss", symmetry(True, True)),
    four("random network distillation, states and rewards normalized", RND),
    by_environments(
        "random network distillation, recurrent", {**TWO, **RND}, "lstm", mini_batches=2
    ),
    four(
        "random network distillation, nothing normalized, scheduled weight",
        {
            **RND,
            **NOT_NORMALIZED,
            "algorithm.rnd_cfg.weight_schedule": {
                "mode": "linear",
                "final_value": 0.0,
                "initial_step": 0,
                "final_step": 40,
            },
        },
    ),
    student("MLP student, observation normalizers"),
    student("recurrent student", recurrent("gru", "student")),
)
