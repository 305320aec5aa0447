"""What the plugin provides. Light: Isaac Lab is imported only in a separate process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import Dialect, Spec, SuiteSpec
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_adapters.sources import mentions, registered_names
from rltrain_isaaclab.asking import ask
from rltrain_isaaclab.dialect import DIALECT

_AGENT = "_cfg_entry_point"
"""The end of the keys at which options of libraries are registered with a task."""
_LIBRARIES = ("rl_games", "rsl_rl", "skrl", "sb3", "torchrl", "rlinf", "robomimic")
_ALGORITHMS = ("amp", "bc", "distillation", "ippo", "mappo", "sac")
"""How the keys begin, and the words in them that say another algorithm than PPO."""

_GROUP = "isaaclab.tasks"
"""The entry points of projects that have tasks; Isaac Lab 3's generator writes one."""


def describe(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    """Describe a task; return None if Isaac Lab does not have it.

    A separate process asks the registry, once per task and options: only the registry knows the
    names, the number of environments and the actions.

    Args:
        task: such as "Isaac-Cartpole-v0", or "module:Name" to import the module that registers it.
        env: the user's `env.` options, presets among them: the answer follows them.
    """
    answer = ask(task, env)
    if answer is None:
        return None
    shapes, actions = answer["observations"], answer["actions"]
    return TaskInfo(
        name=task,
        action=answer["action"],
        num_envs=answer["num_envs"],
        max_episode_length=answer["max_episode_length"],
        random_lengths=True,  # As Isaac Lab's training script for rsl_rl does.
        observations=shapes and {name: ArrayInfo(tuple(shape)) for name, shape in shapes.items()},
        actions=tuple(actions) if actions else None,
        library=answer["library"],
        agents={key.removesuffix(_AGENT): _trains(key) for key in answer["agents"]},
        env=env,
    )


def knows(task: str) -> bool:
    """Return whether a task seems to be Isaac Lab's, or one of a project with tasks for it.

    Args:
        task: "Name", which is looked for in the sources of Isaac Lab's tasks and of those that
            projects declare; or "module:Name", whose module is read.
    """
    module, _, name = task.rpartition(":")
    if module:
        return mentions(module, "isaaclab")
    quoted = f'"{name}"', f"'{name}'"
    return any(mentions(package, *quoted, files=files) for package, files in _packages())


def _packages() -> list[tuple[str, str]]:
    """Return the packages with tasks, and which of their files register them."""
    projects = [(point.module, "*.py") for point in entry_points(group=_GROUP)]
    return [("isaaclab_tasks", "__init__.py"), *projects]  # Isaac Lab imports no other files.


def tasks() -> list[str]:
    """Return the task names found in the sources of Isaac Lab's tasks, without importing them.

    Names that the code composes from parts are missing, so the list is for information only.
    """
    found = [
        name
        for package, files in _packages()
        for name in registered_names(package, "register", "id", files)
    ]
    return list(dict.fromkeys(found))


def _of_module(module: str | None) -> list[str]:
    """Return the tasks that a module registers with Gymnasium, as Isaac Lab's projects do."""
    names = registered_names(module, "register", "id") if module else []
    return [f"{module}:{name}" for name in names]


def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
    """Return the options that Isaac Lab registers with a task for a library, or None."""
    answer = ask(task.name, task.env) or {"agents": {}}
    other = "" if algorithm == "ppo" else f"_{algorithm}"
    key = f"{task.agent or library + other}{_AGENT}"
    found = answer["agents"].get(key)
    if found is not None and "error" in found:
        raise UsageError(
            f"The options of the task {task.name!r} for {library} ({key}) cannot be loaded: "
            f"{found['error']}. Install what is missing, or give --agent-config."
        )
    options: Mapping[str, Any] | None = found and found["options"]
    return options


def _why_not_rendered(task: TaskInfo) -> str | None:
    """Return why the task's environments cannot be rendered here, or None."""
    return (ask(task.name, task.env) or {}).get("why_not_rendered")


def _cannot_play(task: TaskInfo) -> str | None:
    """Return a line that tells that the task has no configuration for playing, or None."""
    return (ask(task.name, task.env) or {}).get("cannot_play")


def _trains(key: str) -> tuple[str, str]:
    """Return the library and the algorithm of options, from their key in Isaac Lab's registry."""
    name = key.removesuffix(_AGENT)
    library = next((known for known in _LIBRARIES if f"{name}_".startswith(f"{known}_")), name)
    words = name.removeprefix(library).split("_")
    return library, next((word for word in words if word in _ALGORITHMS), "ppo")


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the suite."""
    return [
        SuiteSpec(
            name="isaaclab",
            factory="rltrain_isaaclab.suite:IsaacLabSuite",
            summary="Isaac Lab's tasks, with the options registered for them",
            frameworks=("torch", "jax"),
            describe=describe,
            tasks=tasks,
            undiscovered_tasks=_of_module,
            probably_has=knows,
            renders=True,
            why_not_rendered=_why_not_rendered,
            tuned=tuned,
            play_overrides={"play": True},
            cannot_play=_cannot_play,
        )
    ]


@hookimpl
def rltrain_dialect() -> Dialect:
    """Say what users of Isaac Lab type."""
    return DIALECT
