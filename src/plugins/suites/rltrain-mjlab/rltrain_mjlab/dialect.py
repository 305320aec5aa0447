"""What users of mjlab type: translated to rltrain's flags, or refused with a reason."""

from __future__ import annotations

import re
from collections import deque

from rltrain.errors import UsageError
from rltrain.specs import Dialect, refusals

_RENAMED = {
    "--env.scene.num-envs": "--num-envs",
    "--env.seed": "--seed",
    "--agent.seed": "--seed",
    "--agent.max-iterations": "--max-iterations",
    "--agent.run-name": "--run-name",
    "--checkpoint-file": "--checkpoint",
    "--motion-file": "env.commands.motion.motion_file",
}
"""Flags whose value is taken as it is, and what they are named here."""

_NO_VALUE = re.compile(r"-(?!\.?\d)|[+~]|[\w.-]+=")
"""How flags and overrides begin. Numbers may begin with a dash: -0.5."""
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?|True|False|None")

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
        ("no-terminations", "they are parts of the task.", "Set env.terminations.NAME=null."),
        (
            "camera video-height video-width",
            "it is the task's viewer.",
            "Set env.viewer.KEY=VALUE.",
        ),
        ("enable-nan-guard", "it is an option of the task.", "Set env.sim.nan_guard.enabled=true."),
    ]
)


def translate(words: list[str]) -> list[str]:
    """Convert mjlab's flags to rltrain's syntax.

    Examples:
        >>> translate(["--env.scene.num-envs", "4096", "--env.sim.njmax", "300"])
        ['--num-envs=4096', 'env.sim.njmax=300']
        >>> translate(["--env.commands.twist.ranges.lin-vel-x", "-1.0", "1.0", "--dry-run"])
        ['env.commands.twist.ranges.lin_vel_x=[-1.0,1.0]', '--dry-run']
    """
    translated: list[str] = []
    rest = deque(words)
    while rest:
        name, equals, value = (word := rest.popleft()).partition("=")
        dashed = name.replace("_", "-")
        if dashed not in _REFUSED | _RENAMED and not name.startswith(("--env.", "--agent.")):
            translated.append(word)
            continue
        values = [value] if equals else _values(rest)
        if dashed in _REFUSED:  # What is switched off is not asked for.
            translated += [] if values == ["False"] else [word]
        elif not any(values):
            raise UsageError(f"{name}: needs a value, as in {name} VALUE.")
        elif dashed in _RENAMED:
            translated += [f"{_RENAMED[dashed]}={values[0]}", *values[1:]]
        else:
            given = ",".join(map(_as_yaml, values))
            option = name.removeprefix("--").replace("-", "_")
            translated.append(f"{option}={f'[{given}]' if len(values) > 1 else given}")
    return translated


def _values(rest: deque[str]) -> list[str]:
    """Take a flag's values, several of a tuple, up to the next flag or override."""
    values: list[str] = []
    while rest and not _NO_VALUE.match(rest[0]):
        if values and _NUMBER.fullmatch(values[0]) and not _NUMBER.fullmatch(rest[0]):
            break  # A word of the command's own.
        values.append(rest.popleft())
    return values


def _as_yaml(value: str) -> str:
    """Convert Python's None and tuples to YAML."""
    if value.startswith("(") and value.endswith(")"):
        return f"[{value[1:-1]}]"
    return "null" if value == "None" else value


DIALECT = Dialect(
    program="mjlab",
    translate=translate,
    refuses=_REFUSED,
)
