"""What users of Isaac Lab type: translated to rltrain's flags, or refused with a reason."""

from __future__ import annotations

import itertools

from rltrain.errors import UsageError
from rltrain.specs import Dialect, Said, refusals

_PRESETS = ("presets", "physics", "renderer")
"""Task options that Isaac Lab 3 takes without `env.`."""


def _frontend(value: str) -> list[str]:
    return [] if value == "torch" else [f"--frontend={value}"]


def _viewer(value: str) -> list[str]:
    return [f"env.viz={value}"]


TRANSLATED: dict[str, Said] = {
    "--disable-fabric": ["env.sim.use_fabric=false"],
    "--train-env-cfg": ["env.play=false"],
    "--use-last-checkpoint": ["--checkpoint=latest"],
    "--resume-optimizer-state": [],  # It always is.
    "-rid": ["--ray-proc-id"],
    "--frontend": _frontend,
    "--viz": _viewer,
    "--visualizer": _viewer,
}
"""Flags in rltrain's syntax."""

_WRITERS = "Choose writers with --writer NAME; `rltrain plugins` lists the installed ones."
_NAMES = "Add a suffix with --run-name NAME, or choose another folder with --log-root DIR."
_OUT = "Leave it out."

_REFUSALS = [
    # Flags without their dashes; why they are refused; what to type instead.
    (
        "load-run load-checkpoint",
        "a run resumes from the run or the checkpoint that you name.",
        "Give --resume RUN, or --checkpoint latest.",
    ),
    (
        "track wandb-project-name wandb-entity wandb-name log-project-name",
        "trackers are writers, with options of their own.",
        "Give --writer console wandb wandb.project=NAME; `rltrain plugins wandb` lists the others.",
    ),
    ("logger", "metrics go to writers, by default console and tensorboard.", _WRITERS),
    ("experiment-name", "run folders are named by library, task and time.", _NAMES),
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
    ("export-io-descriptors", "export writes them, into policy.json.", "Give rltrain export RUN."),
    (
        "capture-env-sensors capture-env-sensors-length capture-env-sensors-interval "
        "capture-env-sensors-format",
        "rltrain does not record the task's sensors.",
        "Leave it out; --video records the viewer's camera.",
    ),
    (
        "livestream xr",
        "Isaac Sim reads this setting from an environment variable.",
        "For a run of one process, put LIVESTREAM=N or XR=1 before the command.",
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
    ("multirun", "Hydra's sweeps are not offered.", "Type a command for each value."),
    ("log-interval keep-all-info", "sb3 is not offered here.", "Give another --library."),
    ("config-path config-name only-eval", "rlinf is not offered here.", "Give another --library."),
    ("ray-proc-id", "run folders have unique names without it.", _OUT),
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
    ("disable-graph-visualization", "no graph is shown.", _OUT),
]


def translate(words: list[str]) -> list[str]:
    """Convert Isaac Lab's presets to rltrain's syntax.

    Examples:
        >>> translate(["presets=newton"])
        ['env.presets=newton']
    """
    for word, value in itertools.zip_longest(words, words[1:], fillvalue=""):
        if word == "--resume" and (not value or value.startswith("--")):  # Isaac Lab's is a switch.
            raise UsageError(
                "--resume: needs a value: a run folder, a checkpoint in one, or latest."
            )
        flag, equals, attached = word.partition("=")
        if flag == "--checkpoint":
            _check_is_here(attached if equals else value)
    # Isaac Lab's launcher passes what follows "--" to the script.
    presets = tuple(f"{name}=" for name in _PRESETS)
    return [f"env.{x}" if x.startswith(presets) else x for x in words if x != "--"]


def _check_is_here(checkpoint: str) -> None:
    """Refuse a checkpoint that Isaac Lab would download."""
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


DIALECT = Dialect(
    program="Isaac Lab",
    commands={
        "random_agent": "rltrain play --agent random --task TASK",
        "zero_agent": "rltrain play --agent zero --task TASK",
        "leapp": "rltrain export RUN",
        "list_envs": "rltrain tasks",
    },
    trains=dict.fromkeys(
        ("train_multigpu", "train-multigpu"), ("--distributed", "--default-library", "rsl_rl")
    ),
    flags=TRANSLATED,
    train_flags={"--agent": lambda value: [f"--agent-config={value}"]},
    translate=translate,
    refuses=refusals(_REFUSALS),
    refuses_of_policies=refusals(_OF_POLICIES),
)
