"""What users of Isaac Lab's, mjlab's and torchrun's commands type, and what it is here."""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.errors import UsageError

__all__ = ["REFUSED", "TRAIN_DISTRIBUTED", "note", "translate"]

TRAIN_DISTRIBUTED = ("train_multigpu", "train-multigpu")
"""Isaac Lab's names for `train --distributed`."""

_PRESETS = ("presets", "physics", "renderer")
"""Options of the task that Isaac Lab 3 takes without `env.`."""

_SAME = {
    "--env.scene.num-envs": "--num-envs",
    "--env.seed": "--seed",
    "--agent.seed": "--seed",
    "--agent.max-iterations": "--max-iterations",
    "--agent.run-name": "--run-name",
}
"""Fields of mjlab's configuration that belong to the run here."""

_LOGS = (
    "every rank's log is a file in the run folder, logs/rank_N.log; the console shows rank 0 and "
    "any rank that fails."
)
_WRITERS = "Choose writers by --writer NAME; `rltrain plugins` lists those that are installed."
_NAMES = "Add to the name by --run-name NAME, or move all of them by --log-root DIR."
_OUT = "Leave it out."

_REFUSALS = [
    # Flags without their dashes; why each is not here; what to type instead.
    (
        "agent",
        "the options that the task registers are found by library and algorithm.",
        "Leave it out, or give --algorithm NAME, or a file: --agent-config FILE.",
    ),
    (
        "resume load-run load-checkpoint agent.resume agent.load-run agent.load-checkpoint",
        "a run goes on from a checkpoint that is named.",
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
        "Download it, and write env.commands.motion.motion_file=FILE.",
    ),
    (
        "track wandb-project-name wandb-entity wandb-name log-project-name agent.wandb-project "
        "agent.wandb-tags agent.upload-model",
        "no writer for Weights & Biases or Neptune is part of rltrain.",
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
        "Write agent.params.network.space.continuous.sigma_init.val=VALUE.",
    ),
    (
        "external-callback",
        "what is called in a run is a plugin.",
        "Write an observer, and choose it by --observer NAME.",
    ),
    ("export-io-descriptors", "descriptors are not exported.", _OUT),
    (
        "capture-env-sensors capture-env-sensors-length capture-env-sensors-interval "
        "capture-env-sensors-format",
        "what the task's sensors see is not recorded.",
        "Leave it out; --video records the viewer's camera.",
    ),
    (
        "livestream",
        "Isaac Sim is told by the environment.",
        "For a run of one process, put LIVESTREAM=N before the command.",
    ),
    (
        "viz visualizer",
        "rank 0 opens the windows that the task's configuration names.",
        "Leave it out, or give --headless for none.",
    ),
    (
        "kit-args experience rendering-mode verbose info deterministic max-visible-envs",
        "Isaac Sim is started with its own settings only.",
        _OUT,
    ),
    ("frontend", "the environments are those of torch.", _OUT),
    ("physics", "it is an option of the task.", "Write physics=NAME, without dashes."),
    ("enable-nan-guard", "it is an option of the task.", "Write env.sim.nan_guard.enabled=true."),
    ("ray-proc-id", "run folders have names of their own without it.", _OUT),
    ("local-ranks-filter log-all-ranks tee redirects", _LOGS, _OUT),
    ("log-dir torchrunx-log-dir", _LOGS, "Say by --log-root DIR where run folders are made."),
    (
        "virtual-local-rank",
        "rank I of a node works on the GPU cuda:I.",
        "Leave it out; --gpu-ids chooses the GPUs.",
    ),
    ("standalone", "a run on one node finds a free port by itself.", _OUT),
    (
        "monitor-interval start-method role rdzv-conf local-addr",
        "rltrain's launcher settles it.",
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
    """Write mjlab's flags and Isaac Lab's presets as they are written here.

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
        elif word == "--":  # Behind it Isaac Lab's launcher finds the words of the script.
            continue
        elif not name.startswith(("--env.", "--agent.")) or dashed in REFUSED:
            translated.append(word)
        else:
            # Like mjlab's, each takes one value, which may begin with a dash: -0.5.
            value = value if equals else next(rest, "")
            if not value or value.startswith("--"):
                raise UsageError(f"{name}: needs a value, as in {name} VALUE.")
            option = _SAME.get(dashed, name.removeprefix("--").replace("-", "_"))
            translated.append(f"{option}={value if dashed in _SAME else _as_yaml(value)}")
    return translated


def _as_yaml(value: str) -> str:
    """Write Python's None, and a tuple, as YAML does."""
    if value.startswith("(") and value.endswith(")"):
        return f"[{value[1:-1]}]"
    return "null" if value == "None" else value


def note(environ: Mapping[str, str]) -> str | None:
    """Return what is to be said of variables that another launcher would have followed."""
    if "TORCHRUNX_LOG_DIR" not in environ:
        return None
    return f"TORCHRUNX_LOG_DIR is not used: {_LOGS}"
