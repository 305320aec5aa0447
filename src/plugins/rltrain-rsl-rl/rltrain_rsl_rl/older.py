"""Options that were written for rsl_rl before version 5, in the words of version 5. Light.

Isaac Lab 2 ships options with one `policy` for actor and critic; its betas of version 3 say of each
model whether it is stochastic.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from rltrain_rsl_rl.options import MODELS

__all__ = ["in_words_of_today", "knows_models"]

_MODEL_OF = {"ActorCritic": "MLPModel", "ActorCriticRecurrent": "RNNModel"}
"""By class of a policy, the class of its two models."""

_NEEDED = frozenset({"actor_hidden_dims", "critic_hidden_dims", "activation"})

_RNN_KEYS = ("rnn_type", "rnn_hidden_dim", "rnn_num_layers")

_OF_MODELS = ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std")
"""What version 4 says of a model, and version 5 of its distribution."""


def knows_models(agent: Mapping[str, Any]) -> bool:
    """Tell whether options have one policy for actor and critic that can be taken apart."""
    policy = agent.get("policy")
    if not isinstance(policy, Mapping) or not policy.keys() >= _NEEDED:
        return False
    return policy.get("class_name", "ActorCritic") in _MODEL_OF


def in_words_of_today(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of any version as version 5 reads them; those of version 5 as they are."""
    options = copy.deepcopy(dict(agent))
    normalises = options.pop("empirical_normalization", None)
    if knows_models(options) and not {"actor", "critic"} & options.keys():
        policy = options.pop("policy")
        for model in ("actor", "critic"):
            options[model] = _model(policy, model, bool(normalises))
        groups = options.get("obs_groups") or {}
        if "policy" in groups and "actor" not in groups:
            groups["actor"] = groups.pop("policy")
    for name in MODELS:
        if isinstance(options.get(name), dict):
            _say_distribution(options[name])
    return options


def _model(policy: Mapping[str, Any], model: str, normalises: bool) -> dict[str, Any]:
    """Return one of the two models of a policy; the actor has its noise."""
    recurrent = {key: policy[key] for key in _RNN_KEYS if key in policy}
    made = {
        "class_name": _MODEL_OF[policy.get("class_name", "ActorCritic")],
        "hidden_dims": policy[f"{model}_hidden_dims"],
        "activation": policy["activation"],
        "obs_normalization": policy.get(f"{model}_obs_normalization", normalises),
        "stochastic": model == "actor",
        **recurrent,
    }
    return made | {key: policy[key] for key in _OF_MODELS if key in policy}


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
