"""Flags of Isaac Lab's, mjlab's and torchrun's commands: translated, or refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.errors import UsageError

__all__ = ["REFUSED", "TRAIN_DISTRIBUTED", "note", "translate"]

TRAIN_DISTRIBUTED = ("train_multigpu", "train-multigpu")
"""Isaac Lab's names for `train --distributed`."""

_PRESETS = ("presets", "physics", "renderer")
"""Task options that Isaac Lab 3 takes without `env.`."""

_RUN_FLAGS = {
    "--env.scene.num-envs": "--num-envs",
    "--env.seed": "--seed",
    "--agent.seed": "--seed",
    "--agent.max-iterations": "--max-iterations",
    "--agent.run-name": "--run-name",
}
"""Fields of mjlab's configuration, and the flags that set them here."""

_LOGS = (
    "every rank's log is a file in the run folder, logs/rank_N.log; the console shows rank 0 and "
    "any rank that fails."
)
_WRITERS = "Choose writers with --writer NAME; `rltrain plugins` lists the installed ones."
_NAMES = "Add a suffix with --run-name NAME, or choose another folder with --log-root DIR."
_OUT = "Leave it out."

_REFUSALS = [
    # Flags without their dashes; why they are refused; what to type instead.
    (
        "agent",
        "rltrain takes the options that the task registers for the library and algorithm.",
        "Leave it out, or give --algorithm NAME or --agent-config FILE.",
    ),
    (
        "resume load-run load-checkpoint agent.resume agent.load-run agent.load-checkpoint",
        "a run resumes from the checkpoint that you name.",
        "Give --checkpoint PATH, or --checkpoint latest.",
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
        "rltrain has no writer for Weights & Biases or Neptune.",
        f"Leave it out. {_WRITERS}",
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
        "rltrain has plugins instead of callbacks.",
        "Write an observer, and choose it with --observer NAME.",
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
        "viz visualizer",
        "rank 0 opens the windows that the task's configuration names.",
        "Leave it out, or give --headless for none.",
    ),
    (
        "kit-args experience rendering-mode verbose info deterministic max-visible-envs",
        "rltrain starts Isaac Sim with its default settings.",
        _OUT,
    ),
    ("frontend", "rltrain uses the torch environments.", _OUT),
    ("physics", "it is an option of the task.", "Set physics=NAME, without dashes."),
    ("enable-nan-guard", "it is an option of the task.", "Set env.sim.nan_guard.enabled=true."),
    ("ray-proc-id", "run folders have unique names without it.", _OUT),
    ("local-ranks-filter log-all-ranks tee redirects", _LOGS, _OUT),
    ("log-dir torchrunx-log-dir", _LOGS, "Choose the folder of all runs with --log-root DIR."),
    (
        "virtual-local-rank",
        "rank I of a node uses the GPU cuda:I.",
        "Leave it out; --gpu-ids chooses the GPUs.",
    ),
    ("standalone", "a run on one node finds a free port by itself.", _OUT),
    (
        "monitor-interval start-method role rdzv-conf local-addr",
        "rltrain's launcher decides this itself.",
        "Leave it out, or let torchrun start the ranks: torchrun ... -m rltrain ...",
    ),
]

REFUSED = {
    f"--{name}": f"--{name}: {reason} {instead}"
    for names, reason, instead in _REFUSALS
    for name in names.split()
}
"""Flags that are refused, each with the reason and what to type instead."""


def translate(words: list[str]) -> list[str]:
    """Convert mjlab's flags and Isaac Lab's presets to rltrain's syntax.

    Raises:
        UsageError: a flag has no value.

    Example:
        >>> translate(["--env.scene.num-envs", "4096", "--env.sim.njmax", "300"])
        ['--num-envs=4096', 'env.sim.njmax=300']
    """
    translated = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        dashed = name.replace("_", "-")
        if equals and name in _PRESETS:
            translated.append(f"env.{word}")
        elif word == "--":  # Isaac Lab's launcher passes what follows to the script.
            continue
        elif not name.startswith(("--env.", "--agent.")) or dashed in REFUSED:
            translated.append(word)
        else:
            # As in mjlab, each takes one value, which may begin with a dash: -0.5.
            value = value if equals else next(rest, "")
            if not value or value.startswith("--"):
                raise UsageError(f"{name}: needs a value, as in {name} VALUE.")
            option = _RUN_FLAGS.get(dashed, name.removeprefix("--").replace("-", "_"))
            translated.append(f"{option}={value if dashed in _RUN_FLAGS else _as_yaml(value)}")
    return translated


def _as_yaml(value: str) -> str:
    """Convert Python's None and tuples to YAML."""
    if value.startswith("(") and value.endswith(")"):
        return f"[{value[1:-1]}]"
    return "null" if value == "None" else value


def note(environ: Mapping[str, str]) -> str | None:
    """Return a note if the environment has a variable that only another launcher uses."""
    if "TORCHRUNX_LOG_DIR" not in environ:
        return None
    return f"TORCHRUNX_LOG_DIR is not used: {_LOGS}"
