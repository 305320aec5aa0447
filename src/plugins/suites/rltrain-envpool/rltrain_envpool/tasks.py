"""Looks up and describes EnvPool's tasks, and applies the user's `env.` options to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import envpool
from envpool.registration import registry

from rltrain.errors import UsageError
from rltrain.types import TaskInfo
from rltrain_adapters import unknown_env_option
from rltrain_envpool.spaces import Actions, Observations, space_of

_IMAGES = frozenset(
    f"envpool.{family}" for family in ("atari", "gfootball", "minigrid", "procgen", "vizdoom")
)
"""The families of tasks whose observations are images."""

_NOT_OPTIONS = frozenset(
    (
        "num_envs",
        "batch_size",
        "max_num_players",
        "base_path",
        "seed",
        "env_seed",
        "gym_reset_return_info",
        "reward_threshold",
    )
)
"""Keys that users cannot set, because the run decides them or they have no effect."""

_NO_LIMIT = 2**31 - 1


def learnable() -> list[str]:
    """Return EnvPool's own names of its tasks, without the families with images."""
    return [name for name, (family, _, _) in registry.specs.items() if family not in _IMAGES]


def describe_task(task: str, options: Mapping[str, Any]) -> TaskInfo | None:
    """Describe a task without making environments; return None if EnvPool does not have it."""
    if _own_name(task) not in envpool.list_all_envs():
        return None
    spec = configured(task, options)
    actions = Actions(task, spec)
    return TaskInfo(
        name=task,
        action=actions.kind,
        num_envs=64,
        max_episode_length=steps_limit(spec),
        options=_options(_spec(task)),
        observations=Observations(task, spec).infos,
        actions=actions.sizes,
    )


def configured(task: str, options: Mapping[str, Any]) -> Any:
    """Return EnvPool's specification of a task with some of its options replaced."""
    known = _options(_spec(task))
    for name, value in options.items():
        if name not in known:
            raise unknown_env_option(task, name, sorted(known))
        _check(task, name, value, known[name])
    return _spec(task, **options)


def steps_limit(spec: Any) -> int | None:
    """Return the time limit of an episode in steps, or None if there is none."""
    limit = int(spec.config.max_episode_steps)
    return None if limit == _NO_LIMIT else limit


def make_pool(task: str, **settings: Any) -> Any:
    """Make a pool of environments."""
    pool = _made(envpool.make_gymnasium, task, settings)
    for name in ("observation_space", "action_space"):
        space_of(pool, name)  # The pool caches them; made in its first step, they would warn.
    return pool


def _own_name(task: str) -> str:
    """Return EnvPool's name of a task, which stands after the prefix."""
    return task.partition("/")[2]


def _spec(task: str, **options: Any) -> Any:
    return _made(envpool.make_spec, task, options)


def _made(make: Callable[..., Any], task: str, settings: Mapping[str, Any]) -> Any:
    try:
        return make(_own_name(task), **settings)
    except (ImportError, RuntimeError) as error:
        raise UsageError(f"The task {task!r} cannot be made on this machine: {error}") from error


def _options(spec: Any) -> dict[str, Any]:
    return {k: value for k, value in spec.config._asdict().items() if k not in _NOT_OPTIONS}


def _check(task: str, name: str, value: Any, default: Any) -> None:
    """Check the type of a value, because EnvPool's own error only shows a C++ signature."""
    kinds = {float: (int, float), int: (int,)}.get(type(default), (type(default),))
    is_bool = isinstance(value, bool)
    if not isinstance(value, kinds) or is_bool != isinstance(default, bool):
        raise UsageError(
            f"env.{name}={value!r} (task {task}): must have the type of its default, {default!r}."
        )
    least = {"max_episode_steps": 1, "num_threads": 0, "frame_skip": 1, "frame_stack": 1}.get(name)
    if least is not None and value < least:
        raise UsageError(f"env.{name}={value!r} (task {task}): must be {least} or more.")
