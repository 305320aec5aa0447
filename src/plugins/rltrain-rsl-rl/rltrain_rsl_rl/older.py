"""Options that were written for rsl_rl before version 5, in the words of version 5. Light.

Isaac Lab 2 ships options with one `policy` for actor and critic, or for student and teacher; its
betas of version 3 say of each model whether it is stochastic.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from rltrain_rsl_rl.options import MODELS

__all__ = ["in_words_of_today"]

_PPO, _DISTILLATION = ("actor", "critic"), ("student", "teacher")
_MODELS_OF = {
    "ActorCritic": _PPO,
    "ActorCriticRecurrent": _PPO,
    "StudentTeacher": _DISTILLATION,
    "StudentTeacherRecurrent": _DISTILLATION,
}
"""By class of a policy, its two models."""

_RNN_KEYS = ("rnn_type", "rnn_hidden_dim", "rnn_num_layers")

_OF_MODELS = ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std")
"""What version 4 says of a model, and version 5 of its distribution."""


def in_words_of_today(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of any version as version 5 reads them; those of version 5 as they are."""
    options = copy.deepcopy(dict(agent))
    normalises = options.pop("empirical_normalization", None)
    models = _models(options.get("policy"))
    if models and not options.keys() & set(models):
        policy = options.pop("policy")
        for model in models:
            options[model] = _model(policy, model, bool(normalises))
        groups = options.get("obs_groups") or {}
        if "policy" in groups and models[0] not in groups:
            groups[models[0]] = groups.pop("policy")
    for name in MODELS:
        if isinstance(options.get(name), dict):
            _say_distribution(options[name])
    return options


def _models(policy: Any) -> tuple[str, ...]:
    """Return the two models that a policy can be taken apart into, or none."""
    if not isinstance(policy, Mapping):
        return ()
    models = _MODELS_OF.get(policy.get("class_name", "ActorCritic"), ())
    needed = {"activation", *(f"{model}_hidden_dims" for model in models)}
    return models if policy.keys() >= needed else ()


def _model(policy: Mapping[str, Any], model: str, normalises: bool) -> dict[str, Any]:
    """Return one of the two models of a policy.

    An actor and a student have its noise; a teacher too, for it is read from an actor's checkpoint.
    """
    recurrent = str(policy.get("class_name")).endswith("Recurrent")
    if model == "teacher":
        recurrent = recurrent and bool(policy.get("teacher_recurrent"))
    made = {
        "class_name": "RNNModel" if recurrent else "MLPModel",
        "hidden_dims": policy[f"{model}_hidden_dims"],
        "activation": policy["activation"],
        "obs_normalization": policy.get(f"{model}_obs_normalization", normalises),
        "stochastic": model != "critic",
    }
    copied = (*(_RNN_KEYS if recurrent else ()), *_OF_MODELS)
    return made | {key: policy[key] for key in copied if key in policy}


def _say_distribution(model: dict[str, Any]) -> None:
    """Put what version 4 says of a model's noise where version 5 reads it."""
    told = {key: model.pop(key) for key in _OF_MODELS if key in model}
    if not told.get("stochastic") or model.get("distribution_cfg"):
        return
    kind = "Heteroscedastic" if told.get("state_dependent_std") else ""
    model["distribution_cfg"] = {
        "class_name": f"{kind}GaussianDistribution",
        "init_std": told.get("init_noise_std", 1.0),
        "std_type": told.get("noise_std_type", "scalar"),
    }
