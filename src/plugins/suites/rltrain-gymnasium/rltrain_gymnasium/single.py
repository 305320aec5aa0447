"""Looks up, makes, checks and describes one environment of a task registered with Gymnasium."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
from gymnasium import error as errors
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space, flatdim

from rltrain.errors import UsageError, in_a_line
from rltrain.types import TaskInfo
from rltrain_adapters import unknown_env_option
from rltrain_adapters.sources import import_for
from rltrain_gymnasium.observed import described, grouped
from rltrain_gymnasium.tried import is_gymnasiums_own, try_out

ActionKind = Literal["continuous", "discrete", "multi_discrete"]


def describe_registered(task: str, options: Mapping[str, Any]) -> TaskInfo | None:
    """Make one environment to describe a task; return None if Gymnasium does not have the task.

    A task that is not Gymnasium's own is tried, too. "module:Id-v0" imports the module first.
    """
    spec = _find(task)
    if spec is None:
        return None
    if spec.entry_point is None:
        raise UsageError(
            f"The task {task!r} is registered with a vector_entry_point alone. Register an "
            "entry_point too; or, for a simulator that steps many at once, write a suite: rltrain "
            "new NAME --kind suite."
        )
    known = _options(spec, options)
    if known is not None and (wrong := sorted(options.keys() - known)):
        raise unknown_env_option(task, wrong[0], sorted(known))
    with contextlib.closing(make_single(task, options)) as made:
        env = grouped(task, made)
        info = TaskInfo(
            name=task,
            action=action_kind(task, env.action_space),
            max_episode_length=made.spec.max_episode_steps if made.spec else None,
            options=known,
            observations=described(env.observation_space),
            actions=_action_sizes(env.action_space),
        )
        if not is_gymnasiums_own(spec):
            try_out(task, made)
        return info


def make_single(task: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Make one environment, without Gymnasium's warnings and its checker.

    `options` are keyword arguments of `gymnasium.make`: the task's own, and `max_episode_steps`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gymnasium.make(task, disable_env_checker=True, **options)
    except (errors.DependencyNotInstalled, ImportError) as error:
        raise UsageError(_missing(task, error)) from error
    except (Exception, SystemExit) as error:
        if _find(task) is None:
            raise UsageError(
                f"The task {task!r} is registered in the process that starts the ranks, and not in "
                "theirs. Register it at the top of a module, outside of `if __name__ == "
                f'"__main__":`, and give "MODULE:{task}".'
            ) from error
        raise UsageError(_raised(task, options, error)) from error


def _raised(task: str, options: Mapping[str, Any], error: BaseException) -> str:
    """Return a message about what a task's constructor has raised."""
    if "was raised from the environment creator" in str(error) and error.__context__:
        error = error.__context__  # Gymnasium's own words do not say where.
    unexpected = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if unexpected and unexpected[1] in options:
        return f"env.{unexpected[1]}: the task {task} has no such option."
    missing = re.search(r"\(\) missing \d+ required [\w-]+ arguments?: (.+)", str(error))
    needed = [f"env.{name}=VALUE" for name in re.findall(r"'(\w+)'", missing[1] if missing else "")]
    given = f" with the env. options {dict(options)}" if options else ""
    hint = f". Give {' '.join(needed)}." if needed else ""
    return f"The task {task!r} cannot be made{given}: {in_a_line(error, placed=True)}{hint}"


def action_kind(task: str, space: Space[Any]) -> ActionKind:
    """Return the kind of actions in a space."""
    if isinstance(space, Discrete):
        return "discrete"
    if isinstance(space, MultiDiscrete) and len(space.shape) == 1:
        return "multi_discrete"
    if isinstance(space, Box) and len(space.shape) == 1 and space.dtype.kind == "f":
        return "continuous"
    raise UsageError(
        f"The task {task!r} has the action space {space}; only a Box of floats with one axis, "
        "Discrete, and MultiDiscrete with one axis are supported. Convert the actions in a "
        "gymnasium.ActionWrapper."
    )


def _action_sizes(space: Space[Any]) -> tuple[int, ...]:
    if isinstance(space, Discrete):
        return (int(space.n),)
    if isinstance(space, MultiDiscrete):
        return tuple(int(count) for count in space.nvec)
    return (flatdim(space),)


def _find(task: str) -> EnvSpec | None:
    """Return Gymnasium's spec of a task, or None if another suite makes it or it is unknown."""
    module = task.rpartition(":")[0]
    if module and not all(part.isidentifier() for part in module.split(".")):
        return None
    name = import_for(task)
    try:
        spec = gymnasium.spec(name)
        # Isaac Lab registers its tasks with Gymnasium too; the suite `isaaclab` makes them.
        return None if "env_cfg_entry_point" in spec.kwargs else spec
    except errors.DeprecatedEnv as error:
        raise UsageError(f"Unknown task {task!r}. {error}") from error
    except errors.Error:
        return None


def _missing(task: str, error: ImportError | errors.DependencyNotInstalled) -> str:
    """Return a message that says how to install the missing package; some of them already do."""
    message = f"The task {task!r} cannot be made on this machine: {error}"
    module = getattr(error, "name", None)
    if not module or "pip install" in message:
        return message
    return f"{message}. Try `pip install {module.partition('.')[0]}`."


def _options(spec: EnvSpec, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the environment's keyword arguments with defaults; None if they are not known.

    An argument without a default has the value that the user gave.
    """
    creator: Any = spec.entry_point
    try:
        if isinstance(creator, str):
            module, _, name = creator.partition(":")
            creator = getattr(importlib.import_module(module), name)
        parameters = inspect.signature(creator).parameters.values()
    except (Exception, SystemExit):  # To make it says why.
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    own = {
        parameter.name: given.get(parameter.name)
        if parameter.default is parameter.empty
        else parameter.default
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    options = {**own, **spec.kwargs, "max_episode_steps": spec.max_episode_steps}
    return {name: value for name, value in options.items() if name != "render_mode"}
