"""Flags of Isaac Lab's, mjlab's and torchrun's commands: translated, or refused with a reason.

What of torchrun is accepted without being translated is in `rltrain.cli.torchrun`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from rltrain.builtin.commands import TRAIN
from rltrain.errors import UsageError
from rltrain.specs import CommandSpec

__all__ = [
    "COMMANDS",
    "LIBRARY_OF_TRAIN_DISTRIBUTED",
    "TRAIN_DISTRIBUTED",
    "TRANSLATED",
    "from_variables",
    "notes",
    "refused",
    "translate",
]

TRAIN_DISTRIBUTED = ("train_multigpu", "train-multigpu")
"""Isaac Lab's names for `train --distributed`."""

LIBRARY_OF_TRAIN_DISTRIBUTED = "rsl_rl"
"""The library that they train with unless another one is named."""

COMMANDS = {
    "random_agent": "rltrain play --agent random --task TASK",
    "zero_agent": "rltrain play --agent zero --task TASK",
    "leapp": "rltrain export RUN",
    "list_envs": "rltrain tasks",
}
"""Isaac Lab's other commands, and what to type instead."""

_PRESETS = ("presets", "physics", "renderer")
"""Task options that Isaac Lab 3 takes without `env.`."""

_RENAMED = {
    "--env.scene.num-envs": "--num-envs",
    "--env.seed": "--seed",
    "--agent.seed": "--seed",
    "--agent.max-iterations": "--max-iterations",
    "--agent.run-name": "--run-name",
    "--viz": "env.viz",
    "--visualizer": "env.viz",
}
"""mjlab's and Isaac Lab's flags whose value is taken as it is, and what they are named here."""

TRANSLATED = {
    "--disable-fabric": ["env.sim.use_fabric=false"],
    "--train-env-cfg": ["env.play=false"],
    "--use-last-checkpoint": ["--checkpoint=latest"],
    "--resume-optimizer-state": [],  # It always is.
    "-rid": ["--ray-proc-id"],
}
"""Flags of Isaac Lab without a value, and the same in rltrain's syntax."""

_WRITERS = "Choose writers with --writer NAME; `rltrain plugins` lists the installed ones."
_NAMES = "Add a suffix with --run-name NAME, or choose another folder with --log-root DIR."
_OUT = "Leave it out."

_REFUSALS = [
    # Flags without their dashes; why they are refused; what to type instead.
    (
        "load-run load-checkpoint agent.resume agent.load-run agent.load-checkpoint",
        "a run resumes from the run or the checkpoint that you name.",
        "Give --resume RUN, or --checkpoint latest.",
    ),
    (
        "wandb-run-path wandb-checkpoint-name",
        "checkpoints are not downloaded.",
        "Download it, and give --checkpoint PATH.",
    ),
    (
        "registry-name",
        "motions are not downloaded.",
        "Download it, and set env.commands.motion.motion_file=FILE.",
    ),
    (
        "track wandb-project-name wandb-entity wandb-name log-project-name agent.wandb-project "
        "agent.wandb-tags agent.upload-model",
        "trackers are writers, with options of their own.",
        "Give --writer console wandb wandb.project=NAME; `rltrain plugins wandb` lists the others.",
    ),
    ("logger agent.logger", "metrics go to writers, by default console and tensorboard.", _WRITERS),
    (
        "experiment-name agent.experiment-name",
        "run folders are named by library, task and time.",
        _NAMES,
    ),
    (
        "sigma",
        "it is an option of rl_games' network.",
        "Set agent.params.network.space.continuous.sigma_init.val=VALUE.",
    ),
    (
        "external-callback",
        "a module that registers tasks is named with the task.",
        "Give --task MODULE:NAME.",
    ),
    ("export-io-descriptors", "descriptors are not exported.", _OUT),
    (
        "capture-env-sensors capture-env-sensors-length capture-env-sensors-interval "
        "capture-env-sensors-format",
        "rltrain does not record the task's sensors.",
        "Leave it out; --video records the viewer's camera.",
    ),
    (
        "livestream",
        "Isaac Sim reads this setting from an environment variable.",
        "For a run of one process, put LIVESTREAM=N before the command.",
    ),
    (
        "xr",
        "Isaac Sim reads this setting from an environment variable.",
        "For a run of one process, put XR=1 before the command.",
    ),
    (
        "kit-args experience rendering-mode verbose info max-visible-envs anim-recording-enabled "
        "anim-recording-start-time anim-recording-stop-time",
        "rltrain starts Isaac Lab with its default settings.",
        _OUT,
    ),
    (
        "deterministic",
        "torch and Warp stay in their default modes.",
        "Leave it out, or for the physics alone set env.sim.physics.deterministic=true.",
    ),
    ("frontend", "rltrain uses the torch environments.", _OUT),
    ("no-resume-optimizer-state", "a checkpoint is loaded with its optimizer.", _OUT),
    ("run-timestamp", "rank 0 names the run folder for all ranks.", _NAMES),
    ("physics", "it is an option of the task.", "Set physics=NAME, without dashes."),
    ("enable-nan-guard", "it is an option of the task.", "Set env.sim.nan_guard.enabled=true."),
    ("ray-proc-id", "run folders have unique names without it.", _OUT),
    (
        "m module no-python run-path",
        "the ranks run rltrain, not a script.",
        "Leave it out, or let torchrun start the ranks: torchrun ... -m rltrain ...",
    ),
    (
        "duplicate-stdout-filters duplicate-stderr-filters",
        "everything that a rank prints is in its log.",
        "Leave it out, and search the logs.",
    ),
    (
        "event-log-handler logs-specs numa-binding shutdown-timeout signals-to-handle",
        "rltrain's launcher does not have it.",
        "Leave it out, or let torchrun start the ranks: torchrun ... -m rltrain ...",
    ),
]

_OF_POLICIES = [
    # Where play, evaluate and export say something else.
    ("experiment-name run-name load-run", "a run is named by its folder.", "Give RUN, or latest."),
    ("agent", "a run has its own options.", "Leave it out, or give --agent-config FILE."),
    ("logger log-project-name", "nothing is logged.", _OUT),
    ("viz visualizer", "play has viewers.", "Give rltrain play RUN --viewer NAME."),
    ("video-interval", "play records one video.", _OUT),
    ("max-steps", "play counts steps.", "Give --steps N."),
    ("export-method", "export writes files of several formats.", "Give --format onnx, jit or pt2."),
    ("export-save-path export-task-name", "export names its file.", "Give --output FILE."),
    ("validation-steps", "export compares the file with the policy.", "Give --verify N."),
    ("disable-graph-visualization", "no graph is drawn.", _OUT),
]


def _dashes(name: str) -> str:
    return f"--{name}" if len(name) > 1 else f"-{name}"


def _messages(refusals: list[tuple[str, str, str]]) -> dict[str, str]:
    return {
        _dashes(name): f"{_dashes(name)}: {reason} {instead}"
        for names, reason, instead in refusals
        for name in names.split()
    }


_REFUSED = _messages(_REFUSALS)
"""Flags that are refused, each with the reason and what to type instead."""

_REFUSED_OF_POLICIES = _REFUSED | _messages(_OF_POLICIES)
"""The same, for commands that use a policy."""


def refused(spec: CommandSpec) -> dict[str, str]:
    """Return the flags that a command refuses, each with the reason and what to type instead."""
    if spec.takes != "options":
        return {}
    return _REFUSED if spec is TRAIN else _REFUSED_OF_POLICIES


def translate(words: list[str]) -> list[str]:
    """Convert mjlab's and Isaac Lab's flags, and Isaac Lab's presets, to rltrain's syntax.

    Raises:
        UsageError: a flag has no value, or a checkpoint is to be downloaded.

    Example:
        >>> translate(["--env.scene.num-envs", "4096", "--env.sim.njmax", "300"])
        ['--num-envs=4096', 'env.sim.njmax=300']
    """
    for word, value in itertools.zip_longest(words, words[1:], fillvalue=""):
        if word == "--resume" and (not value or value.startswith("--")):  # Isaac Lab's is a switch.
            raise UsageError(
                "--resume: needs a value: a run folder, a checkpoint in one, or latest."
            )
        flag, equals, attached = word.partition("=")
        if flag == "--checkpoint":
            _check_is_here(attached if equals else value)
    translated = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        dashed = name.replace("_", "-")
        if equals and name in _PRESETS:
            translated.append(f"env.{word}")
        elif dashed in TRANSLATED and not equals:
            translated += TRANSLATED[dashed]
        elif dashed == "--frontend":
            value = value if equals else next(rest, "")
            translated += [] if value == "torch" else [f"{name}={value}"]
        elif word == "--":  # Isaac Lab's launcher passes what follows to the script.
            continue
        elif dashed in _REFUSED or not (
            dashed in _RENAMED or name.startswith(("--env.", "--agent."))
        ):
            translated.append(word)
        else:
            # As in mjlab, each takes one value, which may begin with a dash: -0.5.
            value = value if equals else next(rest, "")
            if not value or value.startswith("--"):
                raise UsageError(f"{name}: needs a value, as in {name} VALUE.")
            option = _RENAMED.get(dashed, name.removeprefix("--").replace("-", "_"))
            translated.append(f"{option}={value if dashed in _RENAMED else _as_yaml(value)}")
    return translated


def _check_is_here(checkpoint: str) -> None:
    """Refuse a checkpoint that Isaac Lab would download.

    Raises:
        UsageError: it has to be downloaded.
    """
    if checkpoint == "pretrained":
        raise UsageError(
            "--checkpoint pretrained: rltrain downloads nothing. `isaaclab play --checkpoint "
            "pretrained` puts the file into .pretrained_checkpoints/LIBRARY: give its path, with "
            "--library and --task."
        )
    if checkpoint.startswith("wandb:") or "://" in checkpoint:
        raise UsageError(
            f"--checkpoint {checkpoint}: rltrain downloads nothing. Download the file, and give "
            "its path."
        )


def _as_yaml(value: str) -> str:
    """Convert Python's None and tuples to YAML."""
    if value.startswith("(") and value.endswith(")"):
        return f"[{value[1:-1]}]"
    return "null" if value == "None" else value


def from_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the options that variables of other launchers set; an empty one sets nothing."""
    folder = environ.get("TORCHRUNX_LOG_DIR")
    return {"rank_log_dir": folder} if folder else {}


def notes(environ: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that only another launcher uses."""
    if "ISAACLAB_RUN_TIMESTAMP" not in environ:
        return []
    return ["ISAACLAB_RUN_TIMESTAMP is not used: rank 0 names the run folder for all nodes."]
