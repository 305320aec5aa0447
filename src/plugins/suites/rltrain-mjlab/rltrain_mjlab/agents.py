"""Makes each library's options from the rsl_rl configuration that mjlab registers with a task."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from rltrain_mjlab import registry

Options = dict[str, Any]

_NOT_OPTIONS = frozenset(
    {
        "experiment_name",
        "logger",
        "run_name",
        "upload_model",
        "wandb_project",
        "wandb_tags",
    }
)
"""Fields of mjlab's configuration that the run or the writers decide."""

_RECURRENT = ("rnn_type", "rnn_hidden_dim", "rnn_num_layers")


def agent_options(task: str, library: str) -> Options | None:
    """Return a library's options for PPO on a task, or None if there are none.

    For rsl_rl they are mjlab's own. For other libraries they are translated: network sizes,
    rollouts, mini-batches and learning rates are the same, and the critic sees the same groups;
    options that rsl_rl does not have keep the other library's defaults. Convolutional and recurrent
    networks are not translated.
    """
    config = dataclasses.asdict(registry.agent_config(task))
    if not all(isinstance(config.get(model), Mapping) for model in ("actor", "critic")):
        return None  # The options of another algorithm.
    options = _rsl_rl(config)
    if library == "rsl_rl":
        if runner := registry.own_runner(task):
            options["class_name"] = runner  # The library's plugin says that it is not used.
        return options
    translate = _TRANSLATIONS.get(library)
    simple = all(options[model]["class_name"] == "MLPModel" for model in ("actor", "critic"))
    return translate(options) if translate is not None and simple else None


def _rsl_rl(config: Mapping[str, Any]) -> Options:
    """Return mjlab's configuration in the format of rsl_rl's own files."""
    options: Options = {
        name: _plain(value) for name, value in config.items() if name not in _NOT_OPTIONS
    }
    for model in ("actor", "critic"):
        part = options[model]
        unset = [name for name in ("cnn_cfg", "distribution_cfg") if part.get(name) is None]
        if part.get("rnn_type") is None:
            unset += _RECURRENT
        for name in unset:
            part.pop(name, None)
    return options


def _plain(value: Any) -> Any:
    """Convert a value to the types that a YAML file would contain."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def _is_asymmetric(options: Mapping[str, Any]) -> bool:
    groups = options["obs_groups"]
    return bool(groups["critic"] != groups["actor"])


def _initial_log_std(options: Mapping[str, Any]) -> float:
    distribution = options["actor"].get("distribution_cfg", {})
    return round(math.log(distribution.get("init_std", 1.0)), 6)


def _rl_games(options: Mapping[str, Any]) -> Options:
    algorithm, actor, critic = (options[name] for name in ("algorithm", "actor", "critic"))
    steps, cuts = options["num_steps_per_env"], algorithm["num_mini_batches"]
    cuts = max(n for n in range(1, cuts + 1) if steps % n == 0)
    asymmetric = _is_asymmetric(options)
    learning = {
        "minibatch_size_per_env": steps // cuts,
        "mini_epochs": algorithm["num_learning_epochs"],
        "learning_rate": algorithm["learning_rate"],
        "e_clip": algorithm["clip_param"],
        "clip_value": algorithm["use_clipped_value_loss"],
        "grad_norm": algorithm["max_grad_norm"],
        "truncate_grads": True,
    }
    space = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": _initial_log_std(options)},
        "fixed_sigma": True,
    }
    config = {
        **learning,
        "max_epochs": options["max_iterations"],
        "horizon_length": steps,
        "lr_schedule": "adaptive" if algorithm["schedule"] == "adaptive" else "identity",
        "kl_threshold": algorithm["desired_kl"],
        "gamma": algorithm["gamma"],
        "tau": algorithm["lam"],
        "entropy_coef": algorithm["entropy_coef"],
        # rl_games halves the mean squared error of the value, rsl_rl does not.
        "critic_coef": 2.0 * algorithm["value_loss_coef"],
        "bounds_loss_coef": 0.0,
        "clip_actions": False,  # mjlab's actions are unbounded.
        "normalize_input": actor["obs_normalization"],
        "normalize_value": True,
        "normalize_advantage": True,
        "value_bootstrap": True,
        "save_best_after": 20,
        "save_frequency": options["save_interval"],
        "reward_shaper": {"scale_value": 1.0},
    }
    if asymmetric:
        config["use_experimental_cv"] = False  # No second value head on the actor's network.
        config["central_value_config"] = {
            **learning,
            "normalize_input": critic["obs_normalization"],
            "network": {"name": "actor_critic", "central_value": True, "mlp": _mlp(critic)},
        }
    network = {
        "name": "actor_critic",
        "separate": not asymmetric,
        "space": {"continuous": space},
        "mlp": _mlp(actor),
    }
    return {
        "params": {
            "seed": options["seed"],
            "algo": {"name": "a2c_continuous"},
            "model": {"name": "continuous_a2c_logstd"},
            "network": network,
            "config": config,
        }
    }


def _mlp(model: Mapping[str, Any]) -> Options:
    return {
        "units": model["hidden_dims"],
        "activation": model["activation"],
        "initializer": {"name": "default"},
    }


def _skrl(options: Mapping[str, Any]) -> Options:
    algorithm, actor, critic = (options[name] for name in ("algorithm", "actor", "critic"))
    adaptive = algorithm["schedule"] == "adaptive"
    scaler = {True: "RunningStandardScaler", False: None}
    agent = {
        "class": "PPO",
        "rollouts": options["num_steps_per_env"],
        "learning_epochs": algorithm["num_learning_epochs"],
        "mini_batches": algorithm["num_mini_batches"],
        "discount_factor": algorithm["gamma"],
        "gae_lambda": algorithm["lam"],
        "learning_rate": algorithm["learning_rate"],
        "learning_rate_scheduler": "KLAdaptiveLR" if adaptive else None,
        "learning_rate_scheduler_kwargs": (
            {"kl_threshold": algorithm["desired_kl"], "min_lr": 1.0e-5, "max_lr": 1.0e-2}
            if adaptive
            else {}
        ),
        "observation_preprocessor": scaler[actor["obs_normalization"]],
        "state_preprocessor": scaler[critic["obs_normalization"]],
        "value_preprocessor": "RunningStandardScaler",
        "grad_norm_clip": algorithm["max_grad_norm"],
        "ratio_clip": algorithm["clip_param"],
        "value_clip": algorithm["clip_param"] if algorithm["use_clipped_value_loss"] else 0.0,
        "entropy_loss_scale": algorithm["entropy_coef"],
        "value_loss_scale": algorithm["value_loss_coef"],
        "kl_threshold": 0.0,
        "rewards_shaper_scale": 1.0,
        "time_limit_bootstrap": True,
        "experiment": {"checkpoint_interval": "auto"},
    }
    policy = {
        "class": "GaussianMixin",
        "clip_actions": False,
        "clip_log_std": True,
        "min_log_std": -20.0,
        "max_log_std": 2.0,
        "initial_log_std": _initial_log_std(options),
        "network": _layers(actor, "OBSERVATIONS"),
        "output": "ACTIONS",
    }
    value = {
        "class": "DeterministicMixin",
        "clip_actions": False,
        "network": _layers(critic, "STATES" if _is_asymmetric(options) else "OBSERVATIONS"),
        "output": "ONE",
    }
    return {
        "seed": options["seed"],
        "models": {"separate": True, "policy": policy, "value": value},
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": agent,
        "trainer": {
            "class": "SequentialTrainer",
            "timesteps": options["max_iterations"] * options["num_steps_per_env"],
        },
    }


def _layers(model: Mapping[str, Any], source: str) -> list[Options]:
    activation = model["activation"]
    return [
        {
            "name": "net",
            "input": source,
            "layers": model["hidden_dims"],
            "activations": {"lrelu": "leaky_relu"}.get(activation, activation),
        }
    ]


_TRANSLATIONS: Mapping[str, Callable[[Mapping[str, Any]], Options]] = {
    "rl_games": _rl_games,
    "skrl": _skrl,
}
