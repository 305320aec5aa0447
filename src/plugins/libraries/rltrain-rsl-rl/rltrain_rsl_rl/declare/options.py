"""rsl_rl's options: the defaults, names of classes, observation groups, and what others call them.

Does not import rsl_rl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.options import load_yaml, overlaid
from rltrain.specs import Ignored
from rltrain.types import TaskInfo
from rltrain_adapters import MANY_ENVS

DEFAULTS = Path(__file__).parent.parent / "defaults"
"""The folder of the defaults: a file per algorithm, and a variant of it for few environments."""


def _names(module: str, name: str) -> tuple[str, ...]:
    """Return the names that a file may use for a class of `rsl_rl.algorithms`."""
    modules = ("rsl_rl.algorithms", f"rsl_rl.algorithms.{module}")
    return (name, *(f"{parent}{mark}{name}" for parent in modules for mark in ".:"))


PPO_NAMES = _names("ppo", "PPO")
"""Names of rsl_rl's PPO in users' files."""

DISTILLATION_NAMES = _names("distillation", "Distillation")
"""Names of rsl_rl's distillation in users' files."""

_ALSO = {"actor": "policy", "state": "policy", "privileged_state": "critic"}
"""What mjlab and MuJoCo Playground call the groups `policy` and `critic`."""

MODELS = ("actor", "critic", "student", "teacher")

POLICIES = ("actor", "student", "teacher")
"""The models that output actions."""

_OWN_CLASS = re.compile(
    r"rsl_rl\.(algorithms|distributions|models|modules|runners)(\.[a-z]\w*)?[.:][A-Z][A-Za-z]*"
)

_RNN_KEYS = ("rnn_type", "rnn_hidden_dim", "rnn_num_layers")
_GAUSSIAN_KEYS = ("init_std", "std_range", "std_type", "learn_std")
_REJECTED_BY = {
    "MLPModel": (*_RNN_KEYS, "cnn_cfg"),
    "RNNModel": ("cnn_cfg",),
    "CNNModel": _RNN_KEYS,
    "GaussianDistribution": ("action_range",),
    "HeteroscedasticGaussianDistribution": ("action_range", "learn_std"),
    "BetaDistribution": _GAUSSIAN_KEYS,
}
"""By class of a model or distribution of rsl_rl, the options that it does not accept."""

_RESUME = "Continue a run with --resume RUN; start a new one with --checkpoint PATH."
_LOGGER = (
    "Metrics go to writers, by default console and tensorboard. Give --writer NAME for others; "
    "`rltrain plugins` lists the installed ones."
)
_FOLDER = "The folder of a run is --log-root, and part of its name --run-name."
_RUNNER = "The runner is rltrain's own: what yours adds belongs to a plugin or the task."
_WHERE, _KINDS = ("", "rsl_rl.runners:", "rsl_rl.runners."), ("OnPolicy", "Distillation")
_RUNNERS = ("", *(f"{where}{kind}Runner" for where in _WHERE for kind in _KINDS))
_OFF = ("", False, "tensorboard", {"class_name": "TensorboardLogWriter"})

_UNREAD = {
    "resume": Ignored(_RESUME),
    **dict.fromkeys(("load_run", "load_checkpoint", "checkpoint"), Ignored(_RESUME, if_typed=True)),
    "logger": Ignored(_LOGGER, _OFF),
    **dict.fromkeys(
        ("wandb_project", "wandb_tags", "neptune_project", "upload_model"),
        Ignored(_LOGGER, if_typed=True),
    ),
    **dict.fromkeys(("experiment_name", "run_name"), Ignored(_FOLDER, if_typed=True)),
    "device": Ignored("Give --device.", if_typed=True),
    **dict.fromkeys(("class_name", "runner_class_name"), Ignored(_RUNNER, _RUNNERS)),
}

_RENAMED = {
    "init_noise_std": "actor.distribution_cfg.init_std",
    "noise_std_type": "actor.distribution_cfg.std_type",
    "activation": "actor.activation, and of critic",
    **{
        f"{model}_{key}": f"{model}.{key}"
        for model in ("actor", "critic")
        for key in ("hidden_dims", "obs_normalization")
    },
}
"""By option of a `policy` of rsl_rl 3, the same in rsl_rl 5."""


def default_agent(task: TaskInfo, algorithm: str) -> dict[str, Any]:
    """Return the algorithm's defaults, which depend on the number of environments and on images."""
    few = DEFAULTS / f"{algorithm}_few_envs.yaml"
    path = few if task.num_envs < MANY_ENVS and few.is_file() else DEFAULTS / f"{algorithm}.yaml"
    agent = load_yaml(str(path), "the defaults of rsl_rl")
    if algorithm == "distillation":
        agent["teacher"] = default_agent(task, "ppo")["actor"]
    for model in agent["obs_groups"].keys() & (task.observations or {}):
        agent["obs_groups"][model] = [model]
    if task.has_images:
        _add_images(agent, task)
    return agent


def _add_images(agent: dict[str, Any], task: TaskInfo) -> None:
    """Let all models read the group `policy` and all images; rsl_rl normalizes no images."""
    encoders = load_yaml(str(DEFAULTS / "images.yaml"), "the defaults of rsl_rl")
    groups = list(dict.fromkeys(["policy", *task.images]))
    for model in (model for model in MODELS if model in agent):
        agent["obs_groups"][model] = list(groups)
        agent[model] = overlaid(agent[model], encoders)
        agent[model]["obs_normalization"] = "policy" not in task.images


def class_of(options: Mapping[str, Any], default: str = "") -> str:
    """Return the options' class name without its module."""
    name = str(options.get("class_name", default))
    return name.replace(":", ".").rpartition(".")[2]


def is_safe_value(key: str, text: str) -> bool:
    """Return whether nothing is run or read that an option names; see `OptionSchema.is_safe_value`.

    Of classes, that is rsl_rl's own: any other name it would import and call. Which run to load is
    for the scripts of mjlab and Isaac Lab alone.
    """
    of_scripts = key in ("load_run", "load_checkpoint")
    return of_scripts or (key.endswith("class_name") and _OWN_CLASS.fullmatch(text) is not None)


def without_options_of_other_classes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Remove options that the class of a model or distribution does not accept.

    An override can change the class, but it cannot remove the options of the class in the file,
    with which rsl_rl would fail.
    """
    result = dict(options)
    for model in (model for model in MODELS if isinstance(options.get(model), Mapping)):
        accepted = _accepted(options[model])
        if isinstance(accepted.get("distribution_cfg"), Mapping):
            accepted["distribution_cfg"] = _accepted(accepted["distribution_cfg"])
        result[model] = accepted
    return result


def _accepted(options: Mapping[str, Any]) -> dict[str, Any]:
    rejected = set(_REJECTED_BY.get(class_of(options), ()))
    # mjlab writes all options of its models, and does not pass on those that are unset.
    rejected |= {key for key in ("cnn_cfg", "distribution_cfg") if options.get(key) is None}
    if options.get("rnn_type", "") is None:
        rejected |= set(_RNN_KEYS)
    return {key: value for key, value in options.items() if key not in rejected}


def set_observation_groups(
    options: dict[str, Any], models: tuple[str, ...], available: Iterable[str]
) -> None:
    """Set the default of rsl_rl, without its warning, for each set without groups, in place."""
    names = set(available)
    sets = options["obs_groups"] = options.get("obs_groups") or {}
    for needed in (*models, *(["rnd_state"] if options["algorithm"].get("rnd_cfg") else [])):
        sets.setdefault(needed, [needed if needed in names else "policy"])
    for name, groups in sets.items():
        # mjlab calls `actor` what is `policy` everywhere else; see `Observations`.
        other = {"policy": "actor"} if "actor" in names else _ALSO
        groups = sets[name] = [x if x in names else other.get(x, x) for x in groups]
        absent = [group for group in groups if group not in names]
        if absent or not groups:
            raise UsageError(
                f"agent.obs_groups.{name}={groups}: must name observation groups of the task, "
                f"which are {', '.join(sorted(names))}."
            )


def ignored(options: Mapping[str, Any]) -> Mapping[str, Ignored]:
    """Return the options that rsl_rl does not read, by key; see `OptionSchema.ignored`."""
    if "actor" not in options or "policy" in options:
        return _UNREAD
    renamed = {f"policy.{old}": Ignored(f"rsl_rl 5: agent.{new}.") for old, new in _RENAMED.items()}
    return _UNREAD | renamed
