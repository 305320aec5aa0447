"""Options written for another version of rsl_rl than the installed one. Does not import rsl_rl.

Options for rsl_rl 3, which Isaac Lab 2 ships, and 4 are converted to those of version 5. Options
that are newer than the installed version are refused, unless they are off.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from packaging.version import Version

from rltrain.errors import UsageError
from rltrain.options import get_dotted
from rltrain_rsl_rl.declare.options import MODELS, POLICIES, class_of

_PPO, _DISTILLATION = ("actor", "critic"), ("student", "teacher")
MODELS_OF = {
    "ActorCritic": _PPO,
    "ActorCriticRecurrent": _PPO,
    "StudentTeacher": _DISTILLATION,
    "StudentTeacherRecurrent": _DISTILLATION,
}
"""By class of a policy, its two models."""

_RNN_KEYS = ("rnn_type", "rnn_hidden_dim", "rnn_num_layers")

NOISE_KEYS = ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std")
"""Options of a model in version 4 that belong to its distribution in version 5."""

POLICY_KEYS = frozenset(
    {
        *("class_name", "activation", "teacher_recurrent", *_RNN_KEYS, *NOISE_KEYS),
        *(f"{model}_{key}" for model in MODELS for key in ("hidden_dims", "obs_normalization")),
    }
)
"""Options of a policy in version 3."""

ADDED_IN = {
    "torch_compile_mode": "5.1",
    "std_range": "5.2",
    "learn_std": "5.2",
    "action_range": "5.3",
    "BetaDistribution": "5.3",
    "use_mixed_precision": "5.5",
}
"""By key, or value of a class_name, the first version that has it."""

_OFF = {"std_range": [1e-6, 1e6], "learn_std": True, "use_mixed_precision": False}
"""By key, the value, besides null, that changes nothing. Isaac Lab 3 writes some of them."""


def without_sections(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's options with those in sections at the top level; see `LibrarySpec.read_file`.

    legged_gym and those who follow it have `runner`, with the names of the classes, and name the
    runner itself by `runner_class_name`; Hydra's users have `algo`.
    """
    options = dict(file)
    sections = [key for key in ("algo", "runner") if isinstance(options.get(key), Mapping)]
    for section in sections:
        options |= {key: x for key, x in options.pop(section).items() if key != section}
    for part, usual in {"policy": "ActorCritic", "algorithm": "PPO"}.items() if sections else ():
        name = options.pop(f"{part}_class_name", usual)
        if isinstance(options.get(part), Mapping):
            options[part] = {"class_name": name} | {
                "rnn_hidden_dim" if key == "rnn_hidden_size" else key: value
                for key, value in options[part].items()
            }
    return options


def upgrade_options(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the format of version 5.

    Those of version 5 are returned unchanged, but without what is newer than the installed version,
    and off.
    """
    options = copy.deepcopy(dict(agent))
    normalizes = options.pop("empirical_normalization", None)
    models = _models_of(options.get("policy"))
    if models and not options.keys() & set(models):
        policy = options.pop("policy")
        for model in models:
            options[model] = _split_off(policy, model, bool(normalizes))
        groups = options.get("obs_groups") or {}
        if "policy" in groups and models[0] not in groups:
            groups[models[0]] = groups.pop("policy")
    for name in MODELS:
        if isinstance(options.get(name), dict):
            _move_noise_to_distribution(options[name])
    for _, section, key, name in _newer_options(options):
        if section[key] in (None, _OFF.get(name)):
            del section[key]
    return options


def check_supported(agent: Mapping[str, Any]) -> None:
    """Check that the installed rsl_rl knows all of the options that `upgrade_options` returned.

    rsl_rl itself would fail on every rank with an unexpected keyword, or ignore the option.
    """
    for prefix, _, key, name in _newer_options(agent):
        option = f"{prefix}{key}={name}" if key == "class_name" else f"{prefix}{key}"
        wanted = f"rsl-rl-lib>={ADDED_IN[name]},<6"
        raise UsageError(
            f"agent.{option}: rsl_rl has it from version {ADDED_IN[name]} on; "
            f"{version('rsl-rl-lib')} is installed. Leave it out, or upgrade: pip install "
            f"'{wanted}'."
        )


def _newer_options(agent: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, str]]:
    """Yield the options of `ADDED_IN` that the installed rsl_rl does not know.

    Each is what comes before the key as the user writes it, the mapping that has the key, the key,
    and its name in `ADDED_IN`.
    """
    installed = Version(version("rsl-rl-lib"))
    sections = ("algorithm", *(f"{model}.distribution_cfg" for model in POLICIES))
    for prefix in ("", *(f"{section}." for section in sections)):
        section = get_dotted(agent, prefix[:-1], None) if prefix else agent
        for key in list(section) if isinstance(section, Mapping) else ():
            name = class_of(section) if key == "class_name" else key
            if name in ADDED_IN and installed < Version(ADDED_IN[name]):
                yield prefix, section, key, name


def _models_of(policy: Any) -> tuple[str, ...]:
    """Return the two models that a policy can be split into, or none."""
    if not isinstance(policy, Mapping):
        return ()
    models = MODELS_OF.get(policy.get("class_name", "ActorCritic"), ())
    needed = {"activation", *(f"{model}_hidden_dims" for model in models)}
    return models if policy.keys() >= needed else ()


def _split_off(policy: Mapping[str, Any], model: str, normalizes: bool) -> dict[str, Any]:
    """Return the options of one of a policy's two models.

    Actor and student get the policy's noise. The teacher gets it too, since it is loaded from a
    checkpoint of an actor.
    """
    recurrent = str(policy.get("class_name")).endswith("Recurrent")
    if model == "teacher":
        recurrent = recurrent and bool(policy.get("teacher_recurrent"))
    options = {
        "class_name": "RNNModel" if recurrent else "MLPModel",
        "hidden_dims": policy[f"{model}_hidden_dims"],
        "activation": policy["activation"],
        "obs_normalization": policy.get(f"{model}_obs_normalization", normalizes),
        "stochastic": model != "critic",
    }
    copied = (*(_RNN_KEYS if recurrent else ()), *NOISE_KEYS)
    return options | {key: policy[key] for key in copied if key in policy}


def _move_noise_to_distribution(model: dict[str, Any]) -> None:
    """Convert a model's noise from the format of version 4 to that of version 5, in place."""
    noise = {key: model.pop(key) for key in NOISE_KEYS if key in model}
    if not noise.get("stochastic") or model.get("distribution_cfg"):
        return
    prefix = "Heteroscedastic" if noise.get("state_dependent_std") else ""
    model["distribution_cfg"] = {
        "class_name": f"{prefix}GaussianDistribution",
        "init_std": noise.get("init_noise_std", 1.0),
        "std_type": noise.get("noise_std_type", "scalar"),
    }
