"""What users of mjlab type: translated to rltrain's flags, or refused with a reason."""

from __future__ import annotations

from rltrain.dialects import Dialect, refusals
from rltrain.errors import UsageError

__all__ = ["DIALECT", "translate"]

_RENAMED = {
    "--env.scene.num-envs": "--num-envs",
    "--env.seed": "--seed",
    "--agent.seed": "--seed",
    "--agent.max-iterations": "--max-iterations",
    "--agent.run-name": "--run-name",
}
"""Flags whose value is taken as it is, and what they are named here."""

_REFUSED = refusals(
    [
        (
            "agent.resume agent.load-run agent.load-checkpoint",
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
            "agent.wandb-project agent.wandb-tags agent.upload-model",
            "trackers are writers, with options of their own.",
            "Give --writer console wandb wandb.project=NAME; `rltrain plugins wandb` lists the "
            "others.",
        ),
        (
            "agent.logger",
            "metrics go to writers, by default console and tensorboard.",
            "Choose writers with --writer NAME; `rltrain plugins` lists the installed ones.",
        ),
        (
            "agent.experiment-name",
            "run folders are named by library, task and time.",
            "Add a suffix with --run-name NAME, or choose another folder with --log-root DIR.",
        ),
        (
            "enable-nan-guard",
            "it is an option of the task.",
            "Set env.sim.nan_guard.enabled=true.",
        ),
    ]
)


def translate(words: list[str]) -> list[str]:
    """Convert mjlab's flags to rltrain's syntax.

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
        if dashed in _REFUSED or not name.startswith(("--env.", "--agent.")):
            translated.append(word)
            continue
        # Each takes one value, which may begin with a dash: -0.5.
        value = value if equals else next(rest, "")
        if not value or value.startswith("--"):
            raise UsageError(f"{name}: needs a value, as in {name} VALUE.")
        option = _RENAMED.get(dashed, name.removeprefix("--").replace("-", "_"))
        translated.append(f"{option}={value if dashed in _RENAMED else _as_yaml(value)}")
    return translated


def _as_yaml(value: str) -> str:
    """Convert Python's None and tuples to YAML."""
    if value.startswith("(") and value.endswith(")"):
        return f"[{value[1:-1]}]"
    return "null" if value == "None" else value


DIALECT = Dialect(
    program="mjlab",
    translate=translate,
    refuses=_REFUSED,
    variables={"TORCHRUNX_LOG_DIR": "rank_log_dir"},
)
