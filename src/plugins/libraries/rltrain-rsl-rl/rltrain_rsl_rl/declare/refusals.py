"""Combinations that rsl_rl, or this adapter, cannot train correctly."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.options import flatten, get_dotted
from rltrain.specs import Refusal
from rltrain.types import TaskInfo
from rltrain_rsl_rl.declare.older import upgrade_options
from rltrain_rsl_rl.declare.options import (
    DISTILLATION_NAMES,
    MODELS,
    PPO_NAMES,
    class_of,
    set_observation_groups,
)

CLASS_NAMES = {"ppo": PPO_NAMES, "distillation": DISTILLATION_NAMES}
"""By `--algorithm`, the values of algorithm.class_name."""


def _option(config: RunConfig, key: str) -> Any:
    return get_dotted(config.agent, key, None)


def _class_name(config: RunConfig) -> Any:
    return _option(config, "algorithm.class_name")


def _class(config: RunConfig, model: str) -> str:
    return class_of(upgrade_options(config.agent).get(model) or {}, "MLPModel")


def _classes(config: RunConfig) -> set[str]:
    return {_class(config, model) for model in ("actor", "critic")}


def _not_found(model: str, config: RunConfig, task: TaskInfo) -> bool:
    """Return whether a model's class is in a module that is not there."""
    name = _option(config, f"{model}.class_name")
    if not isinstance(name, str) or not re.search("[.:]", name):
        return False
    top = re.split("[.:]", name)[0]
    # To find a top-level module imports nothing.
    return top not in sys.modules and importlib.util.find_spec(top) is None


def _unknown_algorithm(config: RunConfig, task: TaskInfo) -> bool:
    return _class_name(config) not in (*PPO_NAMES, *DISTILLATION_NAMES)


def _another_algorithm(config: RunConfig, task: TaskInfo) -> bool:
    own = CLASS_NAMES[config.algorithm or "ppo"]
    return not _unknown_algorithm(config, task) and _class_name(config) not in own


def _no_models(config: RunConfig, task: TaskInfo) -> bool:
    agent, distils = upgrade_options(config.agent), _class_name(config) in DISTILLATION_NAMES
    models = ("student", "teacher") if distils else ("actor", "critic")
    lacks = not all(isinstance(agent.get(model), Mapping) for model in models)
    return lacks or (distils and not get_dotted(agent, "student.distribution_cfg", None))


def _batch_normalization(config: RunConfig, task: TaskInfo) -> bool:
    """Return whether a CNN has batch norm; there may be one CNN per image group."""
    kinds = [
        value
        for model in MODELS
        for key, value in flatten(_option(config, f"{model}.cnn_cfg") or {})
        if key.rpartition(".")[2] == "norm"
    ]
    return config.on_several_ranks and any("batch" in kind for kind in kinds)


def _image_groups(config: RunConfig, task: TaskInfo) -> dict[str, list[bool]]:
    """Return for each model, and for `rnd_state`, whether each group that it reads is an image.

    Those that are unknown before the environments exist count as vectors; the runner checks them.
    """
    agent, known = upgrade_options(config.agent), task.observations or {}
    rnd = ["rnd_state"] if get_dotted(agent, "algorithm.rnd_cfg", None) else []
    sets = [model for model in MODELS if isinstance(agent.get(model), Mapping)]
    if known and not any(group.is_image for group in known.values()):  # They may not be all.
        set_observation_groups(agent, tuple(sets), known)
    groups = agent.get("obs_groups") or {}
    return {
        name: [group in known and known[group].is_image for group in groups.get(name) or default]
        for name in sets + rnd
        for default in [[name if name in known else "policy"]]
    }


def _images_for_vectors(config: RunConfig, task: TaskInfo) -> bool:
    return any(
        any(images) and _class(config, name) in ("MLPModel", "RNNModel")
        for name, images in _image_groups(config, task).items()
        if name in MODELS
    )


def _no_encoder_to_share(config: RunConfig, task: TaskInfo) -> bool:
    return bool(_option(config, "algorithm.share_cnn_encoders")) and _classes(config) != {
        "CNNModel"
    }


def _symmetric_and_recurrent(config: RunConfig, task: TaskInfo) -> bool:
    return bool(_option(config, "algorithm.symmetry_cfg")) and "RNNModel" in _classes(config)


def _half_precision_memory(config: RunConfig, task: TaskInfo) -> bool:
    half = bool(_option(config, "algorithm.use_mixed_precision"))
    distils = _class_name(config) in DISTILLATION_NAMES
    return half and distils and _class(config, "student") == "RNNModel"


REFUSALS = (
    Refusal(
        "discrete actions",
        lambda config, task: task.action != "continuous",
        "rsl_rl has no categorical distribution: its policies have continuous actions only.",
        "choose a variant of the task with continuous actions, such as "
        "rltrain/CartPoleContinuous-v1 for CartPole-v1, or --library rl_games or skrl.",
    ),
    *(
        Refusal(
            f"a class of the {model} that is not found",
            functools.partial(_not_found, model),
            "Python finds no module of this name.",
            "install it, or put its folder on Python's path: PYTHONPATH=. for the current one.",
            f"{model}.class_name",
        )
        for model in MODELS
    ),
    Refusal(
        "an algorithm of one's own",
        _unknown_algorithm,
        "rltrain runs subclasses of rsl_rl's PPO and Distillation, which check, save and share "
        "what they learn; algorithm.class_name names another class.",
        "give agent.algorithm.class_name=PPO.",
        "algorithm.class_name",
    ),
    Refusal(
        "the options of another algorithm",
        _another_algorithm,
        "algorithm.class_name in the agent options is not the class of this --algorithm.",
        "give --algorithm distillation for the options of a Distillation, and --algorithm ppo for "
        "those of a PPO.",
        "algorithm.class_name",
    ),
    Refusal(
        "options without the algorithm's models",
        _no_models,
        "rsl_rl 5 reads its models from `actor` and `critic`, or from `student` and `teacher`. A "
        "student needs distribution_cfg, whose standard deviation is logged. From the older "
        "`policy`, the classes ActorCritic, StudentTeacher and those with Recurrent can be "
        "converted.",
        "give an agent config that has them, in the format of rsl_rl 5.",
        "policy.class_name",
    ),
    Refusal(
        "distillation without a teacher",
        lambda config, task: _class_name(config) in DISTILLATION_NAMES and not config.checkpoint,
        "A student learns from a trained teacher.",
        "give --checkpoint with a checkpoint of PPO on this task, whose actor becomes the teacher.",
    ),
    Refusal(
        "use_mixed_precision with a recurrent student",
        _half_precision_memory,
        "its hidden states are bfloat16 after an update, and its next step fails on them.",
        "leave it out, or give student.class_name=MLPModel.",
    ),
    Refusal(
        "images for a model of vectors",
        _images_for_vectors,
        "MLPModel and RNNModel read vectors, and one of them would read an observation group that "
        "is an image.",
        "give class_name=CNNModel with a cnn_cfg, or other groups in obs_groups.",
    ),
    Refusal(
        "CNNModel with a recurrent model",
        lambda config, task: _classes(config) == {"CNNModel", "RNNModel"},
        "if one model is recurrent, mini-batches consist of trajectories, which a CNNModel cannot "
        "read.",
        "give neither of them class_name=RNNModel.",
    ),
    Refusal(
        "random network distillation of images",
        lambda config, task: any(_image_groups(config, task).get("rnd_state", [])),
        "its networks read vectors, and obs_groups.rnd_state has an image.",
        "give obs_groups.rnd_state groups that are vectors, or algorithm.rnd_cfg=null.",
    ),
    Refusal(
        "share_cnn_encoders without encoders",
        _no_encoder_to_share,
        "actor and critic must both be a CNNModel to share an encoder.",
        "give algorithm.share_cnn_encoders=false.",
    ),
    Refusal(
        "symmetry with recurrent models",
        _symmetric_and_recurrent,
        "rsl_rl mirrors single steps, from which a recurrent model cannot learn.",
        "give algorithm.symmetry_cfg=null, or class_name=MLPModel.",
    ),
    Refusal(
        "batch normalization on several ranks",
        _batch_normalization,
        "cnn_cfg.norm=batch normalizes by one rank's mini-batch, and keeps statistics that differ "
        "from rank to rank.",
        "give cnn_cfg.norm=layer, or train on one rank.",
    ),
)
"""The combinations that would train nonsense or hang."""
