"""What the plugin provides. Light: Playground is imported only when environments are made."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import Spec, SuiteSpec
from rltrain.types import TaskInfo
from rltrain_adapters.sources import import_for, mentions
from rltrain_playground.tasks import BUNDLED, MENAGERIE, has_menagerie

_FETCH = 'python -c "from mujoco_playground._src import mjx_env; mjx_env.ensure_menagerie_exists()"'

_LENGTHS = {"episode_length", "action_repeat"}
"""The options that set the length of an episode in steps."""


def describe(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    """Describe a task; return None if Playground does not have it.

    Args:
        task: Playground's name of it, or "module:Name" to import the module that registers it.
        env: the user's `env.` options. Playground is imported if they set an episode's length.
    """
    if ":" in task:
        return _describe_registered(task, env)
    if task in MENAGERIE and not has_menagerie():
        raise UsageError(
            f"The task {task!r} needs the robots of MuJoCo Menagerie, which Playground downloads. "
            f"Several ranks cannot download them at once, so download them first: {_FETCH}"
        )
    length = BUNDLED.get(task) or MENAGERIE.get(task)
    if length is not None and _LENGTHS & env.keys():
        from rltrain_playground.config import episode_steps, with_options

        length = episode_steps(with_options(task, env, "cpu"))
    return None if length is None else _info(task, length)


def knows(task: str) -> bool:
    """Return whether a task is Playground's, or one of a module that mentions Playground."""
    module, _, name = task.rpartition(":")
    return mentions(module, "mujoco_playground") if module else name in {*BUNDLED, *MENAGERIE}


def tasks() -> list[str]:
    """Return the names of all tasks; those that need no download come first."""
    return [*BUNDLED, *MENAGERIE]


def _describe_registered(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    """Import the module of a "module:Name", and describe the task with this name."""
    module = task.rpartition(":")[0]
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    name = import_for(task)
    if "mujoco_playground" not in sys.modules:
        return None  # The module registered nothing with Playground; another suite may have it.
    from rltrain_playground.config import episode_steps, find, with_options

    if find(name) is None:
        return None
    return _info(task, episode_steps(with_options(task, env, "cpu")))


def _info(task: str, length: int) -> TaskInfo:
    return TaskInfo(task, "continuous", num_envs=256, max_episode_length=length)


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the suite."""
    return [
        SuiteSpec(
            name="playground",
            factory="rltrain_playground.suite:PlaygroundSuite",
            summary="MuJoCo Playground's tasks, which are programs of jax",
            frameworks=("jax",),
            describe=describe,
            tasks=tasks,
            probably_has=knows,
            renders=True,
            mujoco_scenes=True,
        )
    ]
