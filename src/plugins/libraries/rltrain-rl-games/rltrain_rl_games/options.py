"""rl_games' options that may be overridden even if the loaded file does not have them.

rl_games reads its options one by one with `config.get` and has no list of them. A contract test
looks for each of these in the installed source.
"""

from __future__ import annotations

__all__ = ["OPTION_KEYS", "OWN_KEYS", "WRAPPING_KEYS"]

_CONFIG = (
    "actor_betas",
    "actor_lr",
    "adv_rms_momentum",
    "alpha_lr",
    "alphas_betas",
    "batch_size",
    "bound_loss_type",
    "bounds_loss_coef",
    "central_value_config",
    "clip_actions",
    "critic_betas",
    "critic_grad_clip",
    "critic_lr",
    "critic_tau",
    "device",
    "env_config",
    "epochs_between_resets",
    "freeze_critic",
    "games_to_track",
    "init_alpha",
    "kl_threshold",
    "learnable_temperature",
    "max_epochs",
    "max_frames",
    "minibatch_size",
    "minibatch_size_per_env",
    "mixed_precision",
    "multi_gpu",
    "name",
    "normalize_value",
    "num_actors",
    "num_steps_per_episode",
    "num_updates_per_step",
    "num_warmup_frames",
    "num_warmup_steps",
    "policy_frequency",
    "ppo",
    "print_stats",
    "replay_buffer_size",
    "save_best_after",
    "save_frequency",
    "schedule_entropy",
    "schedule_type",
    "score_to_win",
    "seq_length",
    "target_entropy_coef",
    "torch_compile",
    "train_dir",
    "truncate_grads",
    "use_diagnostics",
    "use_experimental_cv",
    "use_smooth_clamp",
    "value_bootstrap",
    "weight_decay",
    "zero_rnn_on_done",
)

OWN_KEYS = frozenset({"params.rltrain.save_replay_buffer"})
"""Options of this plugin: whether SAC's checkpoints contain every rank's replay buffer, which a
bit-exact resume needs."""

WRAPPING_KEYS = frozenset({"params.env.clip_actions", "params.env.clip_observations"})
"""Isaac Lab's options for the environment, which rl_games does not read."""

OPTION_KEYS = (
    frozenset(f"params.config.{name}" for name in _CONFIG)
    | {"params.seed", "params.torch_threads"}
    | OWN_KEYS
    | WRAPPING_KEYS
)
