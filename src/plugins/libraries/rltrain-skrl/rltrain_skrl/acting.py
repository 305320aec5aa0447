"""The options and the checkpoint of an agent that only acts, for every framework."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Set
from typing import Any

from rltrain.errors import UsageError
from rltrain_skrl.agent import PROGRESS
from rltrain_skrl.plugin import RPO_OUTPUTS
from rltrain_skrl.refusals import ACTING_MODEL, ALGORITHMS, DETERMINISTIC
from rltrain_skrl.skrl1 import rename_states


def draws(options: Mapping[str, Any]) -> bool:
    """Return whether the agent of the Runner's options has a stochastic policy."""
    return _algorithm(options) not in DETERMINISTIC


def acting_model(options: Mapping[str, Any]) -> str:
    """Return the name of the model that acts."""
    return ACTING_MODEL.get(_algorithm(options), "policy")


def _algorithm(options: Mapping[str, Any]) -> str:
    return str(options["agent"]["class"]).lower()


def acting_options(agent: Mapping[str, Any], has_states: bool) -> dict[str, Any]:
    """Return the Runner's options without what only training needs."""
    options: dict[str, Any] = copy.deepcopy(dict(agent))
    if _algorithm(options) not in ALGORITHMS:
        raise UsageError(
            f"agent.agent.class={options['agent']['class']}: of skrl's agents this plugin adapts "
            f"{', '.join(ALGORITHMS).upper()}."
        )
    rename_states(options, has_states)
    models, role = options["models"], acting_model(options)
    if role not in models:
        raise UsageError(
            f"agent.models: has no {role}, with which {options['agent']['class']} acts. Give the "
            "agent options that the checkpoint was trained with."
        )
    if models.get("separate", True):
        options["models"] = {"separate": True, role: models[role]}
    options["agent"].pop("random_timesteps", None)
    options["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
    return options


def without_noise(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which RPO's policy draws nothing, where its `alpha` is zero anyway."""
    quiet: dict[str, Any] = copy.deepcopy(dict(options))
    model = quiet["models"][acting_model(options)]
    if model.get("output") in RPO_OUTPUTS:
        model["output"] = "ACTIONS"
    return quiet


def check_parts(saved: Set[str], modules: Set[str], options: Mapping[str, Any]) -> None:
    """Check that a checkpoint has the models and preprocessors of an agent."""
    ours, others = (
        {name for name in names if not name.endswith("optimizer")}
        - {PROGRESS, "value_preprocessor"}
        for names in (modules, saved)
    )
    unknown, lacking = (", ".join(sorted(names)) for names in (others - ours, ours - others))
    if unknown or lacking:
        found = [f"has {unknown}"] * bool(unknown) + [f"lacks {lacking}"] * bool(lacking)
        raise UsageError(
            f"does not fit {options['agent']['class']} with these options: it "
            f"{' and '.join(found)}. Give the --algorithm or --agent-config that it was trained "
            "with."
        )
