"""mjlab's own configuration of a task, with the user's `env.` options in it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rltrain.errors import UsageError
from rltrain.options import set_child, unknown_env_option
from rltrain_mjlab import registry

__all__ = ["PLAY", "with_options"]

PLAY = "play"
"""The option that is not mjlab's: the configuration with which the task is played."""

_INSTEAD = {"scene.num_envs": "--num-envs", "seed": "--seed"}
"""Options that are the run's."""

_VALUES = (bool, int, float, str, tuple)
"""What is there in every configuration, unless its annotation says that it may be None. Terms of
mjlab's managers are switched off by None."""


def with_options(task: str, options: Mapping[str, Any]) -> Any:
    """Return the configuration of a task with some of its values replaced.

    Args:
        task: its name.
        options: nested as the configuration is; what is null switches a term off. `play: true`
            takes the task's configuration for playing: no noise, episodes without end.

    Raises:
        UsageError: the configuration has no such option, or not of this kind; or the task needs an
            option that was not given.
    """
    rest = dict(options)
    play = rest.pop(PLAY, False)
    if not isinstance(play, bool):
        raise UsageError(f"env.{PLAY}={play!r}: must be true or false.")
    config = registry.env_config(task, play)
    _replace(config, rest, "", task)
    _check(config, task)
    return config


def _replace(node: Any, options: Mapping[str, Any], prefix: str, task: str) -> None:
    known = _parts(node)
    for name, value in options.items():
        key = f"{prefix}{name}"
        if key in _INSTEAD:
            raise UsageError(f"env.{key}: is the run's. Give {_INSTEAD[key]}.")
        if name not in known:
            raise unknown_env_option(task, key, [f"{prefix}{other}" for other in known])
        try:
            new = _replaced(known[name], value, key, _hint(node, name), task)
        except ValueError as error:
            raise UsageError(f"env.{key}={value!r} (task {task}): {error}.") from error
        set_child(node, name, new)


def _replaced(current: Any, value: Any, key: str, hint: Any, task: str) -> Any:
    """Return what is to be there in place of a value.

    Raises:
        UsageError: it has parts, and one of them is wrong.
        ValueError: it is of another kind.
    """
    if not isinstance(value, Mapping) or not _parts(current):
        return _typed(current, value, hint)
    # A tuple cannot be written to.
    part = list(current) if isinstance(current, tuple) else current
    _replace(part, value, f"{key}.", task)
    return tuple(part) if isinstance(current, tuple) else part


def _parts(node: Any) -> dict[str, Any]:
    """Return by name what a part of a configuration has, empty for plain values."""
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    if isinstance(node, Mapping):
        return {str(name): value for name, value in node.items()}
    if isinstance(node, (list, tuple)):
        return {str(index): value for index, value in enumerate(node)}
    return {}


def _hint(node: Any, name: str) -> Any:
    """Return the annotation of a dataclass' field, Any where it cannot be told."""
    if not dataclasses.is_dataclass(node):
        return Any
    try:
        return get_type_hints(type(node)).get(name, Any)
    except Exception:  # Names that only a type checker sees.
        return Any


def _typed(current: Any, value: Any, hint: Any = Any) -> Any:
    """Return a value as of the kind that it replaces.

    Raises:
        ValueError: it is of another kind.
    """
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise ValueError(f"must be one of {', '.join(map(str, get_args(hint)))}")
    if isinstance(current, enum.Enum):
        if value not in type(current).__members__:
            raise ValueError(f"must be one of {', '.join(type(current).__members__)}")
        return type(current)[value]
    if value is None and isinstance(current, _VALUES) and type(None) not in get_args(hint):
        raise ValueError(f"must be {_kind(current)}")
    if value is None or current is None:
        return tuple(value) if isinstance(value, list) else value
    if isinstance(current, (tuple, list)) and isinstance(value, list):
        like = list(current) if len(current) == len(value) else [*current[:1]] * len(value)
        items = [_typed(a, b) for a, b in zip(like, value, strict=True)] if like else value
        return type(current)(items)
    if isinstance(current, float) and type(value) is int:
        return float(value)
    if type(value) is not type(current):
        raise ValueError(f"must be {_kind(current)}")
    return value


def _kind(current: Any) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    if type(current) in kinds:
        return kinds[type(current)]
    if isinstance(current, (tuple, list)):
        return f"a list, such as {list(current)}"
    if _parts(current):
        return f"set by its parts: {', '.join(_parts(current))}"
    return f"code ({type(current).__name__}), which only Python can set"


def _check(config: Any, task: str) -> None:
    """Refuse what mjlab would fail on later, or in the middle of training.

    Raises:
        UsageError: a motion to be tracked is missing, or an episode has no step.
    """
    for name, command in config.commands.items():
        motion = getattr(command, "motion_file", None)
        if motion is not None and not Path(motion).is_file():
            raise UsageError(
                f"env.commands.{name}.motion_file={motion!r}: the task {task} tracks a motion, and "
                "there is no such file. Give a motion.npz of mjlab's."
            )
    if config.episode_length_s <= 0:
        raise UsageError(f"env.episode_length_s={config.episode_length_s}: must be above 0.")
