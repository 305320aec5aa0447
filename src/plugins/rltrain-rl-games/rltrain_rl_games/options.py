"""Options of rl_games that its files may leave out, and that may be overridden all the same.

rl_games reads its options one by one with `config.get`, so that no list of them can be asked for;
a contract test looks for each of these in the installed source.
"""

from __future__ import annotations

__all__ = ["OPTION_KEYS"]

_CONFIG = (
    "adv_rms_momentum",
    "bound_loss_type",
    "bounds_loss_coef",
    "clip_actions",
    "device",
    "env_config",
    "epochs_between_resets",
    "freeze_critic",
    "games_to_track",
    "kl_threshold",
    "max_epochs",
    "max_frames",
    "minibatch_size",
    "minibatch_size_per_env",
    "mixed_precision",
    "multi_gpu",
    "name",
    "normalize_value",
    "num_actors",
    "ppo",
    "print_stats",
    "save_best_after",
    "save_frequency",
    "schedule_entropy",
    "schedule_type",
    "score_to_win",
    "seq_length",
    "torch_compile",
    "train_dir",
    "truncate_grads",
    "use_diagnostics",
    "use_smooth_clamp",
    "value_bootstrap",
    "weight_decay",
    "zero_rnn_on_done",
)

OPTION_KEYS = frozenset({f"params.config.{name}" for name in _CONFIG} | {"params.seed"}) | {
    "params.torch_threads"
}
