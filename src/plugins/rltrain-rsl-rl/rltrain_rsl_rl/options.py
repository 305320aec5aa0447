"""rsl_rl's options: the defaults, in its own format, and the keys that may be overridden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rltrain.config import load_yaml
from rltrain.types import TaskInfo

__all__ = ["DEFAULTS", "OPTION_KEYS", "PPO_NAMES", "default_agent"]

DEFAULTS = Path(__file__).parent / "defaults"
"""One file an algorithm, and one for each task that has defaults of its own."""

PPO_NAMES = (
    "PPO",
    "rsl_rl.algorithms.PPO",
    "rsl_rl.algorithms:PPO",
    "rsl_rl.algorithms.ppo.PPO",
    "rsl_rl.algorithms.ppo:PPO",
)
"""The ways in which a file may name rsl_rl's own PPO."""

RUNNER_KEYS = (
    "num_steps_per_env",
    "save_interval",
    "check_for_nan",
    "torch_compile_mode",
    "obs_groups",
    "obs_groups.actor",
    "obs_groups.critic",
    "obs_groups.rnd_state",
    # What rsl_rl's users keep in the same file, read by what calls its runner.
    "seed",
    "max_iterations",
    "clip_actions",
    "init_at_random_ep_len",
)

ALGORITHM_KEYS = (
    "class_name",
    "num_learning_epochs",
    "num_mini_batches",
    "clip_param",
    "gamma",
    "lam",
    "value_loss_coef",
    "entropy_coef",
    "learning_rate",
    "max_grad_norm",
    "optimizer",
    "use_clipped_value_loss",
    "schedule",
    "desired_kl",
    "normalize_advantage_per_mini_batch",
    "use_mixed_precision",
    "share_cnn_encoders",
    "rnd_cfg",
    "symmetry_cfg",
)

RND_KEYS = (
    "num_outputs",
    "predictor_hidden_dims",
    "target_hidden_dims",
    "activation",
    "state_normalization",
    "reward_normalization",
    "weight",
    "weight_schedule",
    "learning_rate",
)

SYMMETRY_KEYS = (
    "data_augmentation_func",
    "use_data_augmentation",
    "use_mirror_loss",
    "mirror_loss_coeff",
)

MODEL_KEYS = (
    "class_name",
    "hidden_dims",
    "activation",
    "obs_normalization",
    "rnn_type",
    "rnn_hidden_dim",
    "rnn_num_layers",
    "cnn_cfg",
    "distribution_cfg",
)

DISTRIBUTION_KEYS = (
    "class_name",
    "init_std",
    "std_range",
    "std_type",
    "learn_std",
    "action_range",
)

OPTION_KEYS = frozenset(
    [
        *RUNNER_KEYS,
        *(f"algorithm.{key}" for key in ALGORITHM_KEYS),
        *(f"algorithm.rnd_cfg.{key}" for key in RND_KEYS),
        *(f"algorithm.symmetry_cfg.{key}" for key in SYMMETRY_KEYS),
        *(f"{model}.{key}" for model in ("actor", "critic") for key in MODEL_KEYS),
        *(f"actor.distribution_cfg.{key}" for key in DISTRIBUTION_KEYS),
    ]
)
"""Dotted keys that may be overridden although the loaded file does not have them."""


def default_agent(task: TaskInfo, algorithm: str) -> dict[str, Any]:
    """Return the options for a task: those tuned for it, or else the algorithm's."""
    tuned = DEFAULTS / f"{task.name.replace('/', '-')}.yaml"
    path = tuned if tuned.is_file() else DEFAULTS / f"{algorithm}.yaml"
    return load_yaml(str(path), "the defaults of rsl_rl")
