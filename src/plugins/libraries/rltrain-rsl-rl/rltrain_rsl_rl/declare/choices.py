"""The words that the installed rsl_rl takes, read from its sources. Does not import rsl_rl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import flatten, get_dotted
from rltrain.specs import Choices
from rltrain_adapters.sources import compared_with, texts_in
from rltrain_rsl_rl.declare.older import ADDED_IN
from rltrain_rsl_rl.declare.options import DISTILLATION_NAMES, MODELS, PPO_NAMES

_UTILS = "rsl_rl.utils.utils"


def choices(options: Mapping[str, Any]) -> dict[str, Choices]:
    """Return rsl_rl's words by dotted key; see `OptionSchema.choices`."""
    kinds = _by_last_part()
    # An algorithm of one's own is refused for that, not for its words.
    known = get_dotted(options, "algorithm.class_name", None) in (*PPO_NAMES, *DISTILLATION_NAMES)
    sections = (*MODELS, "policy", *(["algorithm"] if known else []))
    return {
        key: kinds[last]
        for key, _ in flatten({name: options[name] for name in sections if name in options})
        for last in [key.rpartition(".")[2]]
        if last in kinds and _is_read_by_rsl_rl(options, key)
    } | _classes(options)


def _by_last_part() -> dict[str, Choices]:
    """Return the words of options that have the same name wherever they are."""
    deviations = Choices("std_type", compared_with("rsl_rl.modules.distribution", "std_type"))
    # Each has one word that rsl_rl does not look for: what it does otherwise.
    schedules = compared_with("rsl_rl.algorithms.ppo", "schedule")
    memories = compared_with("rsl_rl.modules.rnn", "type")
    losses = texts_in("rsl_rl.algorithms.distillation", "loss_fn_dict")
    return {
        "activation": Choices("activation", texts_in(_UTILS, "act_dict"), ignore_case=True),
        "optimizer": Choices("optimizer", texts_in(_UTILS, "optimizer_dict"), ignore_case=True),
        "loss_type": Choices("loss", losses),
        "schedule": Choices("schedule", schedules and schedules | {"fixed"}),
        "rnn_type": Choices("rnn_type", memories and memories | {"lstm"}, ignore_case=True),
        "std_type": deviations,
        "noise_std_type": deviations,
    }


def _classes(options: Mapping[str, Any]) -> dict[str, Choices]:
    """Return the words for classes that are named without a module: rsl_rl's own."""
    models = Choices("model", texts_in("rsl_rl.models", "__all__"))
    named = texts_in("rsl_rl.modules", "__all__") - {"Distribution"}
    distributions = Choices("distribution", {x for x in named if x.endswith("Distribution")})
    keys = {f"{model}.class_name": models for model in MODELS}
    keys |= {f"{model}.distribution_cfg.class_name": distributions for model in MODELS}
    return {key: each for key, each in keys.items() if _is_plain(get_dotted(options, key, None))}


def _is_plain(name: Any) -> bool:
    """Return whether a class is named without a module, and no other version of rsl_rl has it."""
    return isinstance(name, str) and not set(".:") & set(name) and name not in ADDED_IN


def is_of_rsl_rl(name: Any) -> bool:
    """Return whether a class in the options is rsl_rl's own, not the user's."""
    own = isinstance(name, str) and (name in ADDED_IN or name.startswith(("rsl_rl.", "rsl_rl:")))
    return own or _is_plain(name)


def _is_read_by_rsl_rl(options: Mapping[str, Any], key: str) -> bool:
    """Return whether an option is read by classes of rsl_rl; those of users may take any word."""
    parts = key.split(".")
    above = (".".join(parts[:end]) for end in range(1, len(parts)))
    return all(is_of_rsl_rl(get_dotted(options, f"{each}.class_name", "")) for each in above)
