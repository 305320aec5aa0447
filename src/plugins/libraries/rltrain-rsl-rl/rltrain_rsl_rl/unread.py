"""What rsl_rl's files say to the scripts of Isaac Lab and mjlab, and how it is said here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.specs import Unread

_RESUME = "A run goes on with --resume RUN, and a new one starts from --checkpoint PATH."
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
    "resume": Unread(_RESUME),
    **dict.fromkeys(("load_run", "load_checkpoint", "checkpoint"), Unread(_RESUME, if_typed=True)),
    "logger": Unread(_LOGGER, _OFF),
    **dict.fromkeys(
        ("wandb_project", "wandb_tags", "neptune_project", "upload_model"),
        Unread(_LOGGER, if_typed=True),
    ),
    **dict.fromkeys(("experiment_name", "run_name"), Unread(_FOLDER, if_typed=True)),
    "device": Unread("Give --device.", if_typed=True),
    **dict.fromkeys(("class_name", "runner_class_name"), Unread(_RUNNER, _RUNNERS)),
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


def unread(options: Mapping[str, Any]) -> Mapping[str, Unread]:
    """Return the options by key; see `LibrarySpec.unread`."""
    if "actor" not in options or "policy" in options:
        return _UNREAD
    renamed = {f"policy.{old}": Unread(f"rsl_rl 5: agent.{new}.") for old, new in _RENAMED.items()}
    return _UNREAD | renamed
