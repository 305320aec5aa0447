"""The keys that the installed rsl_rl takes, read from its sources. Does not import rsl_rl.

rsl_rl passes sections of a file to its classes, which fail with an unexpected keyword on every
rank. What this plugin knows of other versions and classes is left to `migrations` and `options`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from rltrain.options import get_dotted
from rltrain.specs import Keys
from rltrain_adapters.sources import parameters
from rltrain_rsl_rl.migrations import MODELS_OF, NOISE_KEYS, POLICY_KEYS
from rltrain_rsl_rl.options import (
    ALGORITHM_KEYS,
    CNN_KEYS,
    DISTILLATION_KEYS,
    DISTILLATION_NAMES,
    DISTRIBUTION_KEYS,
    MODEL_KEYS,
    MODELS,
    PPO_NAMES,
    RND_KEYS,
    RUNNER_KEYS,
    SYMMETRY_KEYS,
    class_of,
)
from rltrain_rsl_rl.words import is_of_rsl_rl

__all__ = ["keys"]

_FROM_RUNNER = frozenset(
    {
        *("actor", "critic", "student", "teacher", "storage", "device", "multi_gpu_cfg"),
        *("obs", "obs_groups", "obs_set", "output_dim", "cnns", "input_dim", "input_channels"),
        *("num_states", "env"),
    }
)
"""Parameters that rsl_rl's runner gives, and no file."""


def keys(options: Mapping[str, Any]) -> dict[str, Keys]:
    """Return rsl_rl's keys by section; see `LibrarySpec.keys`."""
    found = {"": _of_runner(options)} | _of_algorithm(options)
    if get_dotted(options, "policy.class_name", "ActorCritic") in [*MODELS_OF]:  # It may be a list.
        found["policy"] = Keys(POLICY_KEYS)
    for model in MODELS:
        if isinstance(options.get(model), Mapping):
            found |= _of_model(options[model], model)
    return found


def _of_runner(options: Mapping[str, Any]) -> Keys:
    """Return all keys but misspelled ones: other programs have theirs in the same file."""
    own = [key for key in RUNNER_KEYS if "." not in key and key not in options]
    wrong = {key for key in map(str, options) if difflib.get_close_matches(key, own, 1, 0.9)}
    return Keys({*own, *map(str, options)} - wrong, required=("save_interval",))


def _of_algorithm(options: Mapping[str, Any]) -> dict[str, Keys]:
    name = get_dotted(options, "algorithm.class_name", None)
    if name not in (*PPO_NAMES, *DISTILLATION_NAMES):
        return {}
    rnd, symmetry = "algorithm.rnd_cfg", "algorithm.symmetry_cfg"
    if name in PPO_NAMES:
        found = _taken("algorithm", "rsl_rl.algorithms:PPO", ALGORITHM_KEYS)
    else:
        own = (*ALGORITHM_KEYS, *DISTILLATION_KEYS)
        found = _taken("algorithm", "rsl_rl.algorithms:Distillation", own)
    found |= _taken(rnd, "rsl_rl.extensions:RandomNetworkDistillation", RND_KEYS)
    return found | _taken(symmetry, "rsl_rl.extensions:Symmetry", SYMMETRY_KEYS)


def _of_model(options: Mapping[str, Any], model: str) -> dict[str, Keys]:
    """Return the keys of a model and of what is in it, as far as they are rsl_rl's own."""
    found = _of_class(options, model, "rsl_rl.models", (*MODEL_KEYS, *NOISE_KEYS))
    noise, images = options.get("distribution_cfg"), options.get("cnn_cfg")
    if isinstance(noise, Mapping) and noise:
        found |= _of_class(noise, f"{model}.distribution_cfg", "rsl_rl.modules", DISTRIBUTION_KEYS)
    if isinstance(images, Mapping) and class_of(options) == "CNNModel":
        by_group = all(isinstance(each, Mapping) for each in images.values())
        for part in [f".{group}" for group in images] if by_group else [""]:
            found |= _taken(f"{model}.cnn_cfg{part}", "rsl_rl.modules:CNN", CNN_KEYS)
    return found


def _of_class(
    options: Mapping[str, Any], section: str, module: str, own: tuple[str, ...]
) -> dict[str, Keys]:
    """Return the keys of a section that names its class."""
    if "class_name" not in options:
        return {section: Keys(set(map(str, options)), required=("class_name",))}
    if not is_of_rsl_rl(options["class_name"]):
        return {}
    return _taken(section, f"{module}:{class_of(options)}", own)


def _taken(section: str, made: str, own: tuple[str, ...]) -> dict[str, Keys]:
    """Return the keys of a section that a class of rsl_rl is made with; none if it is not found.

    Args:
        section: the dotted key of the section.
        made: the module and the class.
        own: what is handled by this plugin, or by rsl_rl before it makes the class.
    """
    module, _, name = made.partition(":")
    taken = {key: x for key, x in parameters(module, name).items() if key not in _FROM_RUNNER}
    required = [key for key, has_default in taken.items() if not has_default]
    return {section: Keys({*taken, *own}, required)} if taken else {}
