"""The claims of rsl_rl."""

from __future__ import annotations

import functools

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
    """Return the options that make models recurrent."""
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

RND = {
    "obs_groups.rnd_state": ["policy"],
    "algorithm.rnd_cfg.weight": 0.1,
    "algorithm.rnd_cfg.num_outputs": 4,
    "algorithm.rnd_cfg.predictor_hidden_dims": [16],
    "algorithm.rnd_cfg.target_hidden_dims": [16],
    "algorithm.rnd_cfg.activation": "elu",
    "algorithm.rnd_cfg.state_normalization": True,
    "algorithm.rnd_cfg.reward_normalization": True,
    "algorithm.rnd_cfg.learning_rate": 1e-3,
}

RSL_RL = (
    PPO(features="observation normalizers, adaptive learning rate", agent=SHORT),
    PPO(features="4 mini-batches", agent=FOUR, mini_batches=4, on_gloo=True),
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
    PPO(
        features="advantages normalized per mini-batch",
        agent={**FOUR, "algorithm.normalize_advantage_per_mini_batch": True},
        mini_batches=4,
    ),
    PPO(
        features="random episode lengths at the start",
        agent={**SHORT, "init_at_random_ep_len": True},
    ),
    PPO(
        features="asymmetric critic (observation group `critic`)",
        agent={**FOUR, "obs_groups.critic": ["critic"]},
        **task("policy and critic"),
        mini_batches=4,
    ),
    PPO(
        features="images of floats",
        agent={**FOUR, **IMAGES},
        **task("images of floats"),
        mini_batches=4,
    ),
    PPO(
        features="images of floats, actor and critic with one encoder",
        agent={**FOUR, **IMAGES, "algorithm.share_cnn_encoders": True},
        **task("images of floats"),
        mini_batches=4,
    ),
    PPO(
        features="images of bytes, the state for the critic",
        task=CAMERA,
        agent=FOUR,
        mini_batches=4,
    ),
    PPO(
        features="images of bytes with a normalized vector", task=BESIDE, agent=FOUR, mini_batches=4
    ),
    PPO(
        features="standard deviation from the observations, fixed learning rate",
        agent={
            **FOUR,
            "actor.distribution_cfg.class_name": "HeteroscedasticGaussianDistribution",
            # With the adaptive one, rsl_rl asks in the first mini-batch whether a divergence that
            # is 0 but for rounding is above 0.
            "algorithm.schedule": "fixed",
        },
        mini_batches=4,
    ),
    PPO(
        features="recurrent, LSTM",
        agent={**SHORT, **recurrent("lstm", "actor", "critic")},
        cut="environments",
    ),
    PPO(
        features="recurrent, GRU, 2 mini-batches",
        agent={**TWO, **recurrent("gru", "actor", "critic")},
        mini_batches=2,
        cut="environments",
    ),
    PPO(
        features="symmetry: data augmentation and mirror loss",
        agent={
            **FOUR,
            "algorithm.symmetry_cfg.data_augmentation_func": "shard_envs:mirrored",
            "algorithm.symmetry_cfg.use_data_augmentation": True,
            "algorithm.symmetry_cfg.use_mirror_loss": True,
            "algorithm.symmetry_cfg.mirror_loss_coeff": 0.5,
        },
        mini_batches=4,
    ),
    PPO(
        features="random network distillation, states and rewards normalized",
        agent={**FOUR, **RND},
        mini_batches=4,
    ),
    PPO(
        features="random network distillation, recurrent",
        agent={**TWO, **RND, **recurrent("lstm", "actor", "critic")},
        mini_batches=2,
        cut="environments",
    ),
    PPO(
        features="random network distillation, nothing normalized, scheduled weight",
        agent={
            **FOUR,
            **RND,
            "algorithm.rnd_cfg.state_normalization": False,
            "algorithm.rnd_cfg.reward_normalization": False,
            "algorithm.rnd_cfg.weight_schedule": {
                "mode": "linear",
                "final_value": 0.0,
                "initial_step": 0,
                "final_step": 40,
            },
        },
        mini_batches=4,
    ),
    Claim(
        library="rsl_rl",
        algorithm="distillation",
        features="MLP student, observation normalizers",
        agent={"num_steps_per_env": 16, "algorithm.gradient_length": 4},
        teacher=PPO(features="the teacher", agent=SHORT),
    ),
    Claim(
        library="rsl_rl",
        algorithm="distillation",
        features="recurrent student",
        agent={
            "num_steps_per_env": 16,
            "algorithm.gradient_length": 4,
            **recurrent("gru", "student"),
        },
        teacher=PPO(features="the teacher", agent=SHORT),
    ),
)
