"""What this plugin provides. Light: it imports no jax."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from typing import Any

from rltrain import hookimpl
from rltrain.config import RunConfig
from rltrain.specs import CheckpointFormat, LibrarySpec, OptionSchema, Refusal, Spec
from rltrain.types import Iteration, TaskInfo

__all__ = ["keys_in", "rltrain_provides"]

DEFAULTS = {
    "iterations": 200,
    "steps": 32,
    "epochs": 8,
    "learning_rate": 3e-3,
    "gamma": 0.99,
    "lam": 0.95,
    "clip": 0.2,
    "max_grad_norm": 1.0,
    "hidden": 64,
    "save_interval": 50,
}


def default_agent(task: TaskInfo, algorithm: str) -> dict[str, Any]:
    """Return the options for a task."""
    return dict(DEFAULTS)


def keys_in(path: str, trusted: bool) -> list[str] | str:
    """Return the names of a checkpoint's arrays, or why it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile:
        return "it is no .npz file, as jax_ppo's checkpoints are."


def _not_continuous(config: RunConfig, task: TaskInfo) -> bool:
    return task.action != "continuous"


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library."""
    return [
        LibrarySpec(
            name="jax_ppo",
            factory="rltrain_jax_ppo.adapter:JaxPpoLibrary",
            summary="PPO in plain jax",
            frameworks=("jax",),
            algorithms=("ppo",),
            default_agent=default_agent,
            schema=OptionSchema(
                required=("steps", "epochs"), run_keys={"max_iterations": "iterations"}
            ),
            iteration=lambda config: Iteration(
                steps=config.agent["steps"], iterations=config.agent["iterations"]
            ),
            refuses=(
                Refusal(
                    "discrete actions",
                    _not_continuous,
                    "jax_ppo's policy is a normal distribution.",
                    "take a task with continuous actions, such as rltrain/CartPoleContinuous-v1.",
                ),
            ),
            checkpoint=CheckpointFormat(
                "rltrain_jax_ppo.plugin:keys_in", frozenset({"iteration", "leaf_0"})
            ),
        )
    ]
