"""Applies the user's `env.` options to mjlab's configuration of a task."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rltrain.errors import UsageError
from rltrain_adapters import drop_removed_options, set_child, unknown_env_option
from rltrain_mjlab import registry

PLAY = "play"
"""The one option that is not mjlab's: it selects the task's configuration for playing."""

_RUN_FLAGS = {"scene.num_envs": "--num-envs", "seed": "--seed"}
"""Values that options of the run set, with their flags."""

_VALUES = (bool, int, float, str, tuple)
"""Types of values that cannot be set to null, unless the annotation allows None. Other values can:
null switches off a term of mjlab's managers."""


def with_options(task: str, options: Mapping[str, Any]) -> Any:
    """Return the configuration of a task as environments are made from it.

    Args:
        task: the task's name.
        options: as for `configured`.
    """
    config = configured(task, options)
    _check(config, task)
    return config


def configured(task: str, options: Mapping[str, Any]) -> Any:
    """Return the configuration of a task with some of its values replaced.

    Args:
        task: the task's name.
        options: values nested like the configuration; null switches a term off. `play: true`
            starts from the task's configuration for playing, but with episodes as long as in
            training: mjlab's never end.
    """
    rest = dict(options)
    play = rest.pop(PLAY, False)
    if not isinstance(play, bool):
        raise UsageError(f"env.{PLAY}={play!r}: must be true or false.")
    config = registry.env_config(task, play)
    if play:
        training = registry.env_config(task)
        config.episode_length_s = training.episode_length_s
        rest = drop_removed_options(rest, training, config, _parts)
    _replace(config, rest, "", task)
    return config


def episode_steps(config: Any) -> int:
    """Return the length of an episode in steps."""
    step_dt = config.sim.mujoco.timestep * config.decimation
    steps: int = math.ceil(config.episode_length_s / step_dt)
    return steps


def _replace(node: Any, options: Mapping[str, Any], prefix: str, task: str) -> None:
    known = _parts(node)
    for name, value in options.items():
        key = f"{prefix}{name}"
        if key in _RUN_FLAGS:
            raise UsageError(f"env.{key}: the run sets this value. Give {_RUN_FLAGS[key]}.")
        if name not in known:
            raise unknown_env_option(task, key, [f"{prefix}{other}" for other in known])
        try:
            new = _replaced(known[name], value, key, _hint(node, name), task)
        except ValueError as error:
            raise UsageError(f"env.{key}={value!r} (task {task}): {error}.") from error
        set_child(node, name, new)


def _replaced(current: Any, value: Any, key: str, hint: Any, task: str) -> Any:
    """Return the value that replaces `current`."""
    if not isinstance(value, Mapping) or not _parts(current):
        return _typed(current, value, hint)
    # Tuples are immutable: change a list, and convert it back.
    part = list(current) if isinstance(current, tuple) else current
    _replace(part, value, f"{key}.", task)
    return tuple(part) if isinstance(current, tuple) else part


def _parts(node: Any) -> dict[str, Any]:
    """Return the parts of a configuration by name; empty for plain values."""
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    if isinstance(node, Mapping):
        return {str(name): value for name, value in node.items()}
    if isinstance(node, (list, tuple)):
        return {str(index): value for index, value in enumerate(node)}
    return {}


def _hint(node: Any, name: str) -> Any:
    """Return the type annotation of a dataclass field, or Any if it cannot be resolved."""
    if not dataclasses.is_dataclass(node):
        return Any
    try:
        return get_type_hints(type(node)).get(name, Any)
    except Exception:  # The annotation uses names imported only under TYPE_CHECKING.
        return Any


def _typed(current: Any, value: Any, hint: Any = Any) -> Any:
    """Return a value converted to the type of the one it replaces."""
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
        return f"set part by part: {', '.join(_parts(current))}"
    return f"code ({type(current).__name__}), which only Python can set"


def _check(config: Any, task: str) -> None:
    """Check what mjlab would fail on only later, or during training."""
    for name, command in config.commands.items():
        motion = getattr(command, "motion_file", None)
        if motion is not None and not Path(motion).is_file():
            raise UsageError(
                f"env.commands.{name}.motion_file={motion!r}: the task {task} tracks a motion, but "
                "this file does not exist. Give the path of a motion.npz file made with mjlab."
            )
    if config.episode_length_s <= 0:
        raise UsageError(f"env.episode_length_s={config.episode_length_s}: must be above 0.")
