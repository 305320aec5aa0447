"""The options: Stable-Baselines3's own keywords, without those that the run decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.errors import UsageError, suggest

__all__ = ["OPTION_KEYS", "TIMESTEPS", "keywords"]

TIMESTEPS = "total_timesteps"
"""A keyword of `learn`, not of the constructor: environment steps, over all ranks."""

_BOTH = (
    "policy",
    "learning_rate",
    "n_steps",
    "gamma",
    "gae_lambda",
    "normalize_advantage",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "use_sde",
    "sde_sample_freq",
    "policy_kwargs",
    "verbose",
)

_KEYWORDS = {
    "ppo": (*_BOTH, "batch_size", "n_epochs", "clip_range", "clip_range_vf", "target_kl"),
    "a2c": (*_BOTH, "rms_prop_eps", "use_rms_prop"),
}

_OF_THE_RUN = ("env", "device", "seed", "tensorboard_log", "stats_window_size", TIMESTEPS)
"""Keywords that a file may contain but that are ignored, because the run decides them."""

_SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf")

OPTION_KEYS = frozenset({*_KEYWORDS["ppo"], *_KEYWORDS["a2c"], TIMESTEPS, "seed"}) | {
    f"policy_kwargs.{name}" for name in ("net_arch", "ortho_init", "log_std_init")
}


def keywords(agent: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    """Return the keyword arguments of `PPO` or `A2C`, without those that the run decides.

    Args:
        agent: the run's options.
        algorithm: "ppo" or "a2c".

    Raises:
        UsageError: the algorithm has no such keyword, or a schedule is not valid.
    """
    known = _KEYWORDS[algorithm]
    options = {key: value for key, value in agent.items() if key not in _OF_THE_RUN}
    for key in options:
        if key not in known:
            name = algorithm.upper()
            raise UsageError(f"agent.{key}: SB3's {name} has no such option.{suggest(key, known)}")
    return {
        key: _schedule(key, value) if key in _SCHEDULED else value for key, value in options.items()
    }


def _schedule(key: str, value: Any) -> Any:
    """Parse `lin_3e-4`, RL Zoo's notation for a value that falls linearly to 0 over the run.

    It is the same on all ranks, because every rank takes the same number of steps.
    """
    if not isinstance(value, str):
        return value
    from stable_baselines3.common.utils import LinearSchedule

    kind, _, start = value.partition("_")
    try:
        if kind != "lin":
            raise ValueError(kind)
        return LinearSchedule(float(start), 0.0, 1.0)
    except ValueError:
        raise UsageError(
            f"agent.{key}={value}: must be a number, or lin_<number> for a value that falls to 0."
        ) from None
